#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "common/clock.h"
#include "operator/reconcile/epochs/member_calls.h"

namespace janus::control {

// Releases the members of an ended epoch (next_step.h, (6)) before their pods are deleted. If
// another topology replaces it, the members first announce that, and continue while gateways still
// use them. Then attention instances accept no new requests, and finish current ones until the
// deadline. Then all members leave and return the rest, so a pod has nothing left to finish when it
// is deleted. Level-triggered: it stores no state, and another process repeats the calls. Confined.
class EpochEnd {
 public:
  // `calls` outlives this.
  explicit EpochEnd(MemberCalls& calls) : calls_(calls) {}

  // The topology that serves instead, and whether all gateways use it already.
  struct Beside {
    Successor successor;
    bool all_follow = false;
  };
  // `order`: for the live members of the ended epoch, from a leader that has raised the fence.
  // True: they are released or do not answer, so their pods may be deleted.
  bool Advance(const MemberOrder& order, const std::optional<Beside>& beside, MonotonicTime now,
               MonotonicTime deadline, const MemberCalls::Wake& wake,
               std::optional<MonotonicTime>& again);

  // The epoch of the last Advance, if that returned true; otherwise 0.
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
  MonotonicTime until_;   // deadline of the call
  uint64_t telling_ = 0;  // successor epoch announced by the current call
  uint64_t told_ = 0;     // successor epoch known to all members
};

}  // namespace janus::control
