#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/clock.h"
#include "operator/reconcile/epochs/epoch_watch.h"
#include "operator/reconcile/epochs/next_step.h"
#include "operator/reconcile/status/cause.h"

namespace janus::control {

// What this process knows of the epochs of one MoETopology beside the record itself. Plain data; a
// new leader begins with an empty one.

enum class EpochCall { kPrepare, kCommit, kAbort };

// A call to the members that has not ended.
struct EpochCallSeen {
  EpochCall verb = EpochCall::kPrepare;
  int64_t epoch = 0;
  MonotonicTime until;  // it counts as failed then, if no member is heard before
};

struct EpochsSeen {
  // `ends`, `above` and `may_propose` are not set: they are decisions.
  LeaderProgress progress;
  std::string why_lost;  // of progress.lost
  // What is under way, or went wrong last: the reason and message of condition TopologyReady.
  Cause under_way;
  MonotonicTime not_before;  // the next attempt after a failure
  int64_t dropped = 0;       // the members of this epoch were told that it is given up
  int64_t released = 0;      // the members of this ended epoch may be deleted (epoch_end.h)
  std::optional<EpochCallSeen> call;
  WatchSeen watch;

  // Every member that lives knows that this epoch is committed.
  bool HasTold(int64_t committed) const { return committed > 0 && progress.told >= committed; }
  // Why that epoch serves no more though its members live; empty: it serves, as far as is known.
  std::string WhyLost(int64_t committed) const {
    return committed > 0 && progress.lost == committed ? why_lost : "";
  }
};

}  // namespace janus::control
