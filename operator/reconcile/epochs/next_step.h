#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "common/topology.h"

namespace janus::control {

// How a service moves from one epoch to the next. Each step is decided from the record, which
// outlives the operator (MoETopology), and from what this process knows of its calls.
//
//   propose   the record: proposed = e, lastEpoch = e     compare-and-swap
//   prepare   every member of e loads and connects        calls; the committed epoch still serves
//   commit    the record: committed = e, proposed gone    compare-and-swap; this decides
//   tell      every member of e serves it                 calls, repeated until all know
//
// Invariants, even if any process ends or is suspended at any point:
// (1) An epoch number is used once: lastEpoch never decreases.
// (2) Members serve an epoch only after the record says that it is committed.
// (3) An epoch that another leader proposed is aborted, never prepared: its progress is unknown.
// (4) No call starts with a fence lower than a later leader's. Members refuse such a call if it was
//     already on its way.
// (5) A new epoch may start before all members know of the committed one only if telling them was
//     tried and failed: a member that cannot be reached does not block the service.
// (6) If the next epoch cannot follow the committed one, a compare-and-swap ends the committed one.
//     Then none is committed, and none follows until its members' pods are gone.

// One serving process; a restart is another instance.
struct InstanceId {
  Role role = Role::kAttention;
  std::string pod_uid;
  int index = 0;
  int incarnation = 0;
  friend auto operator<=>(const InstanceId&, const InstanceId&) = default;
};

// What identifies an epoch's topology: a change of either field is another topology.
struct EpochContent {
  std::set<InstanceId> members;
  std::string config_hash;  // settings, placement, exchange
  friend bool operator==(const EpochContent&, const EpochContent&) = default;
};

struct RecordedEpoch {
  int64_t epoch = 0;
  EpochContent content;
};

// The part of MoETopology.spec that decisions use.
struct EpochRecord {
  int64_t fence = 0;
  int64_t last_epoch = 0;
  std::optional<RecordedEpoch> committed = {};
  std::optional<RecordedEpoch> proposed = {};
};

enum class PrepareState { kNone, kRunning, kDone, kFailed };

// What this process has done since it became leader; a new leader starts empty.
struct LeaderProgress {
  int64_t fence = 0;      // of this term; 0: not raised yet
  int64_t preparing = 0;  // the epoch it proposed last, to which `prepare` refers
  PrepareState prepare = PrepareState::kNone;
  int64_t told = 0;          // every member knows that this epoch is committed
  bool tell_failed = false;  // not all live members could be told of the committed epoch
  int64_t lost = 0;          // this epoch no longer works, though its members live; 0: none
  bool may_propose = true;   // false: backing off after a failure
  bool ends = false;         // the committed or proposed epoch is no longer wanted
  // lastEpoch of the other topology. A gateway that watches both takes the newer one. So no number
  // is used twice, and no lower one is committed after a higher one.
  int64_t above = 0;
};

enum class EpochStepKind {
  kNothing,
  kRaiseFence,  // record: fence + 1
  kTell,        // calls: Commit of `epoch` to its members
  kAbort,       // calls: Abort of `epoch`; then record: proposed gone
  kPropose,     // record: proposed = what is wanted, as `epoch`; lastEpoch = `epoch`
  kPrepare,     // calls: Prepare of `epoch`
  kWait,        // for Prepare
  kCommit,      // record: committed = proposed, proposed gone
  kEnd,         // record: endedEpoch = `epoch`, the committed one
};

struct EpochStep {
  EpochStepKind kind = EpochStepKind::kNothing;
  int64_t epoch = 0;
  std::string why;  // for logs and Events
  // With kAbort: the member that is gone, if that is the reason.
  std::optional<InstanceId> gone = {};
};

// `wanted`: what should serve; absent: unknown, or nothing should. `alive`: every instance that
// could still be a member. Pure.
EpochStep NextStep(const EpochRecord& record, const LeaderProgress& progress,
                   const std::optional<EpochContent>& wanted, const std::set<InstanceId>& alive);

}  // namespace janus::control
