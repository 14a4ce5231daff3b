#include "operator/reconcile/epoch_watch.h"

#include <algorithm>
#include <set>
#include <utility>

#include "operator/reconcile/earlier.h"
#include "operator/reconcile/member_name.h"
#include "operator/reconcile/topology_record.h"

namespace janus::control {
namespace {

// Who relays says in this time who has not answered it.
constexpr std::chrono::seconds kAnswer{10};

}  // namespace

void EpochWatch::Forget() {
  question_.reset();
  epoch_ = 0;
  why_lost_.clear();
  silent_since_.clear();
}

std::optional<MonotonicTime> EpochWatch::SilentSince(const InstanceId& member) const {
  const auto found = silent_since_.find(member);
  if (found == silent_since_.end()) return std::nullopt;
  return found->second;
}

void EpochWatch::Look(const MemberOrder& order, const TopologyRecord& record, MonotonicTime now,
                      const MemberCalls::Wake& wake, std::optional<MonotonicTime>& again) {
  if (order.epoch != epoch_) {
    Forget();
    epoch_ = order.epoch;
    next_ = now;
  }
  if (question_ != nullptr && question_->done()) {
    // Nobody answered: who relays cannot be reached, or not from here, and the next question goes
    // to another one.
    if (question_->result().ok()) Take(question_->statistics(), record, now);
    question_.reset();
  } else if (question_ != nullptr && now >= asked_ + kAnswer) {
    question_.reset();
  }
  if (question_ == nullptr && now >= next_) {
    question_ = calls_.Ask(order, wake);
    asked_ = now;
    next_ = now + kLookEvery;
  }
  Earlier(again, now < next_ ? next_ : asked_ + kAnswer);
}

void EpochWatch::Take(const Statistics& statistics, const TopologyRecord& record,
                      MonotonicTime now) {
  std::set<std::string> silent;
  for (const SilentMember& one : statistics.silent) silent.insert(one.name);
  int rank_of[2] = {0, 0};
  int holding = 0;
  std::string first;
  for (const TopologyInstance& member : record.instances) {
    const std::string name = MemberName(member);
    const int rank = rank_of[member.role == Role::kExperts]++;
    if (silent.contains(name)) {
      silent_since_.try_emplace(IdOf(member), now);
    } else {
      silent_since_.erase(IdOf(member));
    }
    const auto said = std::find_if(statistics.instances.begin(), statistics.instances.end(),
                                   [&](const InstanceStatistics& one) {
                                     return one.role == member.role && one.rank.value == rank &&
                                            static_cast<int64_t>(one.epoch) == epoch_ &&
                                            !one.holding.empty();
                                   });
    if (said == statistics.instances.end()) continue;
    if (holding++ == 0) first = name + " holds its requests: " + said->holding;
  }
  if (holding == 0 || !why_lost_.empty()) return;
  why_lost_ = std::move(first);
  if (holding > 1) why_lost_ += "; and " + std::to_string(holding - 1) + " more";
}

}  // namespace janus::control
