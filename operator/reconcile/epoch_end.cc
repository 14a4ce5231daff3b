#include "operator/reconcile/epoch_end.h"

#include <algorithm>
#include <chrono>

#include "operator/reconcile/earlier.h"

namespace janus::control {
namespace {

// To leave; and to answer at all beyond the time that a call was given.
constexpr std::chrono::seconds kAnswer{10};

}  // namespace

bool EpochEnd::Advance(const MemberOrder& order, MonotonicTime now, MonotonicTime deadline,
                       const MemberCalls::Wake& wake, std::optional<MonotonicTime>& again) {
  if (epoch_ != order.epoch) {
    epoch_ = order.epoch;
    phase_ = Phase::kNone;
    call_.reset();
  }
  if (order.members.empty()) phase_ = Phase::kOver;
  if (phase_ == Phase::kNone) {
    MemberOrder attention = order;
    std::erase_if(attention.members,
                  [](const TopologyInstance& one) { return one.role != Role::kAttention; });
    phase_ = Phase::kDrains;
    until_ = std::max(deadline, now) + kAnswer;
    const Seconds longest = std::max(Seconds(deadline - now), Seconds(0));
    if (longest > Seconds(0) && !attention.members.empty()) {
      call_ = calls_.Drain(attention, longest, wake);
    }
  }
  const auto is_over = [&] { return !call_ || call_->done() || now >= until_; };
  if (phase_ == Phase::kDrains && is_over()) {
    call_.reset();
    MemberOrder leave = order;
    leave.epoch = order.epoch + 1;  // of which they are no members
    phase_ = Phase::kLeaves;
    until_ = now + kAnswer;
    call_ = calls_.Drain(leave, kAnswer, wake);
  }
  if (phase_ == Phase::kLeaves && is_over()) {
    call_.reset();
    phase_ = Phase::kOver;
  }
  if (phase_ == Phase::kOver) return true;
  Earlier(again, until_);
  return false;
}

}  // namespace janus::control
