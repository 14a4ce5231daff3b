#include "operator/reconcile/epochs/epoch_end.h"

#include <algorithm>
#include <chrono>

#include "operator/reconcile/pass/wake_time.h"

namespace janus::control {
namespace {

// For Leave; also the time to answer beyond a call's own duration.
constexpr std::chrono::seconds kAnswer{10};
// Pause before the members that missed the announcement are called again.
constexpr std::chrono::seconds kTellPause{1};

}  // namespace

// Until all gateways have switched, or the deadline.
void EpochEnd::Tell(const MemberOrder& order, const std::optional<Beside>& beside,
                    MonotonicTime now, MonotonicTime deadline, const MemberCalls::Wake& wake,
                    std::optional<MonotonicTime>& again) {
  if (phase_ == Phase::kTells && (call_->done() || now >= until_)) {
    if (call_->done() && call_->result().ok()) told_ = telling_;
    call_.reset();
    phase_ = Phase::kWaits;
    until_ = now + kTellPause;
  }
  if (!beside || now >= deadline || (beside->all_follow && told_ != 0)) {
    call_.reset();
    phase_ = Phase::kNone;
    return;
  }
  const bool is_told = told_ == beside->successor.topology.epoch;
  const bool may_call = phase_ == Phase::kNone || (phase_ == Phase::kWaits && now >= until_);
  if (!is_told && may_call) {
    telling_ = beside->successor.topology.epoch;
    call_ = calls_.Supersede(order, beside->successor, wake);
    phase_ = Phase::kTells;
    until_ = now + kAnswer;
  }
  if (is_told) phase_ = Phase::kWaits;
  BringForward(again, is_told ? deadline : std::min(until_, deadline));
}

bool EpochEnd::Advance(const MemberOrder& order, const std::optional<Beside>& beside,
                       MonotonicTime now, MonotonicTime deadline, const MemberCalls::Wake& wake,
                       std::optional<MonotonicTime>& again) {
  if (epoch_ != order.epoch) {
    epoch_ = order.epoch;
    phase_ = Phase::kNone;
    told_ = 0;
    call_.reset();
  }
  if (order.members.empty()) phase_ = Phase::kOver;
  if (phase_ < Phase::kDrains) {
    Tell(order, beside, now, deadline, wake, again);
    if (phase_ != Phase::kNone) return false;
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
  // A member was lost meanwhile: the caller waits no longer.
  if (phase_ == Phase::kDrains) until_ = std::min(until_, std::max(deadline, now) + kAnswer);
  const auto is_over = [&] { return !call_ || call_->done() || now >= until_; };
  if (phase_ == Phase::kDrains && is_over()) {
    call_.reset();
    MemberOrder leave = order;
    leave.epoch = order.epoch + 1;  // they are not members of this epoch
    phase_ = Phase::kLeaves;
    until_ = now + kAnswer;
    call_ = calls_.Drain(leave, kAnswer, wake);
  }
  if (phase_ == Phase::kLeaves && is_over()) {
    call_.reset();
    phase_ = Phase::kOver;
  }
  if (phase_ == Phase::kOver) return true;
  BringForward(again, until_);
  return false;
}

}  // namespace janus::control
