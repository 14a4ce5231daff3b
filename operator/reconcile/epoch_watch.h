#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/clock.h"
#include "operator/api/moe_topology.h"
#include "operator/reconcile/epochs.h"
#include "operator/reconcile/member_calls.h"

namespace janus::control {

// Whether an epoch that was told to its members still serves: they are asked every few seconds, one
// question at a time. It is lost when a member holds: its exchange has ended, that of its peers
// ends with it, and nobody goes back into an epoch. A member that only does not answer loses
// nothing: rows travel another way than questions do; but an epoch that is lost is not made anew
// with it before it answers.
//
// Told the time; never waits. Destroying it cancels its question. Confined.
class EpochWatch {
 public:
  explicit EpochWatch(MemberCalls& calls) : calls_(calls) {}

  // Takes an answer that has come and asks anew when it is time to. `order`: of the members of
  // `record`, those that live; not empty. `again` is brought forward to when there is something to
  // look at.
  void Look(const MemberOrder& order, const TopologyRecord& record, MonotonicTime now,
            const MemberCalls::Wake& wake, std::optional<MonotonicTime>& again);
  // Nothing is known, and nothing is asked any more.
  void Forget();

  // Of the epoch that was looked at last: who holds, and why; empty: nobody, as far as is known.
  const std::string& why_lost() const { return why_lost_; }
  // Since when a member of it has been asked in vain; nothing: it answers.
  std::optional<MonotonicTime> SilentSince(const InstanceId& member) const;

 private:
  void Take(const Statistics& statistics, const TopologyRecord& record, MonotonicTime now);

  MemberCalls& calls_;
  int64_t epoch_ = 0;
  std::unique_ptr<StatisticsQuestion> question_;
  MonotonicTime asked_;  // the question under way
  MonotonicTime next_;   // the time for the next one
  std::string why_lost_;
  std::map<InstanceId, MonotonicTime> silent_since_;
};

// How often the members of a committed epoch are asked.
inline constexpr std::chrono::seconds kLookEvery{5};

}  // namespace janus::control
