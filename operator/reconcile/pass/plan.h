#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "common/clock.h"
#include "operator/api/tree.h"
#include "operator/certificates/issue_plan.h"
#include "operator/kube/object_api.h"
#include "operator/reconcile/capacity/service_planner.h"
#include "operator/reconcile/children/children.h"
#include "operator/reconcile/epochs/epoch_driver.h"
#include "operator/reconcile/epochs/epoch_end.h"
#include "operator/reconcile/pass/remembered.h"
#include "operator/reconcile/pods/pods.h"
#include "operator/reconcile/status/service_event.h"
#include "operator/records/tick_record.h"

namespace janus::control {

// Actions of a pass. Each is one call to the API server, one call to workers that is only started,
// or a short sequence of calls that is described below.

// Issues and renews due certificates, and writes them into the roles' Secrets. One action, so that
// keys are in memory only briefly.
struct KeepCertificates {
  bool uses_tls = true;  // false: the service uses no TLS, and all knowledge of certificates is
                         // dropped
  IssueCircumstances circumstances;
  std::shared_ptr<const MoEService> service;  // owner of the Secrets
  // Roles that lack ready pods: their Secrets are written again, since one may have been deleted.
  std::set<PeerRole> lacking;
};

// Asks workers for their model and their resources. Starts the call only.
struct AskWorkers {
  bool is_old_side = false;
  WorkersToAsk workers;
};

// POST of a child.
struct MakeChild {
  const Resource* resource = nullptr;
  Node object;
};
// Server-side apply over `there`. It first takes over an object created by POST, and it replaces
// lists of the spec that the server refuses to merge.
struct ApplyChild {
  Child child;
  Node there;
};
struct DeleteChild {
  const Resource* resource = nullptr;
  ObjectKey key;
  std::string uid;
  std::string why;  // for the Event
};
// A foreign object has one of our names. It stays; an Event and a refusal that stands report it.
struct RefuseAdoption {
  std::string call;  // identifies the refusal
  std::string what;  // "Service chat"
  std::string remedy;
};

// Raises the last pod ids in the service's status, by compare-and-swap. Later MakePods need it.
struct ReservePodNames {
  Node next;                  // the service with its new status
  std::array<PodIds, 2> ids;  // the ids after that
};
struct MakePod {
  Role role = Role::kAttention;
  int64_t id = 0;
  Node object;
};
// Sets label and readiness gate, which show the members of the committed topology.
struct MarkPod {
  enum class Change {
    kJoin,     // both, in one write
    kLabel,    // the label is missing
    kUnlabel,  // remove the label, so that the pod no longer counts for evictions and scalers
    kShut,     // close the gate
    kPool,     // label an older pod of the first pool with its number
  };
  Change change = Change::kJoin;
  PodSeen pod;
};
struct DeletePod {
  PodRemoval removal;
};

// Actions on MoETopologies. `topology` is the object's name.
struct MakeTopology {
  Node object;
};
struct RaiseFence {
  std::string topology;
};
struct ProposeEpoch {
  std::string topology;
  int64_t epoch = 0;
  std::shared_ptr<const EpochProposal> proposal;
};
struct PrepareEpoch {  // starts the call to the members
  std::string topology;
  int64_t epoch = 0;
};
struct CommitEpoch {
  std::string topology;
  int64_t epoch = 0;
};
struct TellEpoch {  // starts the call that tells members that it is committed
  std::string topology;
  int64_t epoch = 0;
};
struct DropEpoch {  // starts the call that tells members that it is given up
  std::string topology;
  int64_t epoch = 0;
};
struct AbortEpoch {  // record: nothing is proposed
  std::string topology;
  int64_t epoch = 0;
  std::string why;
};
struct EndEpoch {  // record: the committed epoch has ended
  std::string topology;
  int64_t epoch = 0;
  std::string why;
};
// Members finish their answers and leave (epoch_end.h); this takes many passes.
struct ReleaseMembers {
  std::string topology;
  MemberOrder order;
  std::optional<EpochEnd::Beside> beside;
  MonotonicTime deadline;
};
// The record's annotation or status. `is_best_effort`: nothing depends on it; a refusal is not
// reported, and the next numbers retry it.
struct UpdateTopology {
  Node object;
  Subresource subresource = Subresource::kNone;
  std::string doing;
  bool is_best_effort = false;
};
struct DeleteTopology {
  ObjectKey key;
  std::string uid;
};

// Keeps a decision on counts; the next round plans with them. No call: it changes what this process
// remembers.
struct TakeDecision {
  ScalingMemory scaling;
  std::optional<TickRecord> record = {};  // for the book of records
  std::string emulated = {};              // of timed devices, for people
};

// The same for a search of placement.
struct TakePlacement {
  std::shared_ptr<const PlacementMemory> placement;
  PlacementRecord record = {};  // kept of the first pool only
  int pool = 1;
};

// Records a fetched model in the service's status, by compare-and-swap.
struct RecordFetch {
  Node next;         // the service with its new status
  std::string what;  // for the Event
};

struct WriteScalerStatus {
  Role role = Role::kAttention;
  Node next;
};
// `events` are recorded after the write.
struct WriteStatus {
  Node next;
  std::vector<ServiceEvent> events;
};

// Notes in the status of the namespace, which is being deleted, that no pod of the service is left.
// Its controller looks again five seconds after such a write. Without it the next look comes after
// half of the pods' longest grace period (Kubernetes, pkg/controller/namespace). Best effort.
struct TellNamespace {
  std::string service;
  std::string ns;
};

using Action =
    std::variant<KeepCertificates, AskWorkers, MakeChild, ApplyChild, DeleteChild, RefuseAdoption,
                 ReservePodNames, MakePod, MarkPod, DeletePod, MakeTopology, RaiseFence,
                 ProposeEpoch, PrepareEpoch, CommitEpoch, TellEpoch, DropEpoch, AbortEpoch,
                 EndEpoch, ReleaseMembers, UpdateTopology, DeleteTopology, TakeDecision,
                 TakePlacement, RecordFetch, WriteScalerStatus, WriteStatus, TellNamespace>;

// The next actions of a pass, decided from one observation.
struct Plan {
  // Actions in order. After some have been done, observe and decide again.
  std::vector<Action> work;
  // Used when no work is left, or the remaining work was refused: the status, Events, and what the
  // next pass needs.
  std::vector<Action> report;
  std::vector<ServiceEvent> events;
  std::vector<std::string> settled;  // topologies without problems to report
  Remembered remembered;
  std::optional<MonotonicTime> again;  // next pass at the latest
  // Problems found without a call, such as an unreadable record.
  std::vector<Refusal> refused;
};

// The name of the action's call for refusals: "create Pod chat-experts-...-3".
std::string CallOf(const Action& action);

// For people and tests: a line per action, Event and time; objects by kind and name. Times are
// relative to `now`.
std::string ToString(const Action& action, MonotonicTime now = {});
std::string ToString(const Plan& plan, MonotonicTime now);

}  // namespace janus::control
