#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "common/topology.h"

namespace janus::control {

// How a service goes from one epoch to the next, decided one step at a time from the record that
// outlives the operator (MoETopology) and from what this process knows of its own calls.
//
//   propose   the record: proposed = e, lastEpoch = e     compare-and-swap
//   prepare   every member of e loads and connects        calls, while the committed epoch serves
//   commit    the record: committed = e, proposed gone    compare-and-swap: here it is decided
//   tell      every member of e serves it                 calls, said again until all have heard
//
// Invariants, whatever process is ended or suspended anywhere:
// (1) An epoch's number is given once: lastEpoch never goes back.
// (2) Members serve an epoch only after the record says that it is committed.
// (3) What another leader proposed is aborted, never prepared on: its progress is unknown.
// (4) No call is made with a fence that a later leader has passed, but one that was already on its
//     way; members refuse it.
// (5) An epoch follows a committed one before all have heard of that one only when telling them was
//     tried and failed: what keeps a member from hearing keeps no service from the next epoch.
// (6) A committed epoch is ended, for what cannot follow it, by a compare-and-swap like any other
//     decision; then none is committed, and none follows before its members' pods are gone.

// One process that serves, for life: a restart of it is another.
struct InstanceId {
  Role role = Role::kAttention;
  std::string pod_uid;
  int index = 0;
  int incarnation = 0;
  friend auto operator<=>(const InstanceId&, const InstanceId&) = default;
};

// What an epoch is of: another of either is another topology.
struct EpochContent {
  std::set<InstanceId> members;
  std::string config_hash;  // settings, placement, exchange
  friend bool operator==(const EpochContent&, const EpochContent&) = default;
};

struct RecordedEpoch {
  int64_t epoch = 0;
  EpochContent content;
};

// MoETopology.spec, as far as it decides.
struct EpochRecord {
  int64_t fence = 0;
  int64_t last_epoch = 0;
  std::optional<RecordedEpoch> committed = {};
  std::optional<RecordedEpoch> proposed = {};
};

enum class PrepareState { kNone, kRunning, kDone, kFailed };

// What this process has done since it began to lead; nothing of it survives.
struct LeaderProgress {
  int64_t fence = 0;      // of this term; 0: not raised yet
  int64_t preparing = 0;  // the epoch that it has proposed last, of which `prepare` speaks
  PrepareState prepare = PrepareState::kNone;
  int64_t told = 0;          // every member has heard that this epoch is committed
  bool tell_failed = false;  // not all of those that live now could be told of the committed one
  int64_t lost = 0;          // this epoch goes on no more, though its members live; 0: none
  bool may_propose = true;   // false: backing off after a failure
  bool ends = false;         // what is committed, or proposed, is not wanted any more
  // Of the topology beside this one: its lastEpoch. A gateway that watches both takes the newer
  // one, so no number is given twice, nor a lower one committed after a higher.
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
  // With kAbort: the member that is not alive, if that is why.
  std::optional<InstanceId> gone = {};
};

// `wanted`: what should serve; absent: nothing can be said yet, or nothing should. `alive`: every
// instance that could still be a member. Pure.
EpochStep NextStep(const EpochRecord& record, const LeaderProgress& progress,
                   const std::optional<EpochContent>& wanted, const std::set<InstanceId>& alive);

}  // namespace janus::control
