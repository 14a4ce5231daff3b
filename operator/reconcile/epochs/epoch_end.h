#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "common/clock.h"
#include "operator/reconcile/epochs/member_calls.h"

namespace janus::control {

// Releases the members of an ended epoch (next_step.h, (6)) before their pods are deleted. If
// another topology serves beside them, they announce it first, and go on while gateways still use
// them. Then attention instances take no new requests and finish those they have until the
// deadline. Then all members leave and return the rest. So a deleted pod has nothing left to wait
// for. Level-triggered: no state of it is stored, and another process repeats the calls. Confined.
class EpochEnd {
 public:
  // `calls` outlives this.
  explicit EpochEnd(MemberCalls& calls) : calls_(calls) {}

  // The topology that serves instead, and whether all gateways use it by now.
  struct Beside {
    Successor successor;
    bool all_follow = false;
  };
  // `order`: of the ended epoch, to its members that live, by a leader whose fence is raised. True:
  // they have been let go, or do not answer, and their pods may be deleted.
  bool Advance(const MemberOrder& order, const std::optional<Beside>& beside, MonotonicTime now,
               MonotonicTime deadline, const MemberCalls::Wake& wake,
               std::optional<MonotonicTime>& again);

  // Of the epoch that Advance was called for last: it has returned true.
  int64_t released() const { return phase_ == Phase::kOver ? epoch_ : 0; }

 private:
  enum class Phase { kNone, kTells, kWaits, kDrains, kLeaves, kOver };

  void Tell(const MemberOrder& order, const std::optional<Beside>& beside, MonotonicTime now,
            MonotonicTime deadline, const MemberCalls::Wake& wake,
            std::optional<MonotonicTime>& again);

  MemberCalls& calls_;
  int64_t epoch_ = 0;
  Phase phase_ = Phase::kNone;
  std::unique_ptr<MemberCall> call_;
  MonotonicTime until_;   // of the call
  uint64_t telling_ = 0;  // the successor's epoch, by the call
  uint64_t told_ = 0;     // the successor's epoch that all have heard of
};

}  // namespace janus::control
