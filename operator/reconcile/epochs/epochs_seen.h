#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/clock.h"
#include "operator/reconcile/epochs/epoch_watch.h"
#include "operator/reconcile/epochs/next_step.h"
#include "operator/reconcile/status/cause.h"

namespace janus::control {

// What this process knows of one MoETopology's epochs that is not in the record. Plain data; a new
// leader starts with an empty one.

enum class EpochCall { kPrepare, kCommit, kAbort };

// A running call to members.
struct EpochCallSeen {
  EpochCall verb = EpochCall::kPrepare;
  int64_t epoch = 0;
  MonotonicTime until;  // it counts as failed at this time if no member answers before
};

struct EpochsSeen {
  // `ends`, `above` and `may_propose` are not set here: they are decisions.
  LeaderProgress progress;
  std::string why_lost;  // of progress.lost
  // Current step or last problem: the reason and message of condition TopologyReady.
  Cause under_way;
  MonotonicTime not_before;  // time of the next attempt after a failure
  int64_t dropped = 0;       // members of this epoch were told that it is given up
  int64_t released = 0;      // pods of this ended epoch may be deleted (epoch_end.h)
  std::optional<EpochCallSeen> call;
  WatchSeen watch;

  // Every live member knows that this epoch is committed.
  bool HasTold(int64_t committed) const { return committed > 0 && progress.told >= committed; }
  // Why the epoch no longer serves although its members live; empty: it serves, as far as we know.
  std::string WhyLost(int64_t committed) const {
    return committed > 0 && progress.lost == committed ? why_lost : "";
  }
};

}  // namespace janus::control
