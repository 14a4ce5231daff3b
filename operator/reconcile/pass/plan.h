#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
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

namespace janus::control {

// The things that a pass may do. Each is one call of the API server, one call to workers that is
// only begun, or a short exchange that carries its own follow-up and says so.

// Issues and renews what is due, and writes it into the roles' Secrets: one exchange, since keys
// are in memory only while they are written.
struct KeepCertificates {
  bool uses_tls = true;  // false: the service goes without, and what is known is forgotten
  IssueCircumstances circumstances;
  std::shared_ptr<const MoEService> service;  // whose Secrets they are
};

// Asks workers what model and what room they have. Only begun.
struct AskWorkers {
  bool is_old_side = false;
  WorkersToAsk workers;
};

// POST of a child.
struct MakeChild {
  const Resource* resource = nullptr;
  Node object;
};
// Server-side apply over `there`, which was judged; takes over first what was made by POST, and
// replaces the spec's lists where the server refuses to merge them.
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
// A foreign object has a name of ours. It stays as it is; an Event and a refusal, which stands for
// a while, report it.
struct RefuseAdoption {
  std::string call;  // by which the refusal is known
  std::string what;  // "Service chat"
  std::string remedy;
};

// Raises the last pod ids in the service's status, by compare-and-swap. MakePods that follow depend
// on it.
struct ReservePodNames {
  Node next;                  // the service with its new status
  std::array<PodIds, 2> ids;  // as they are then
};
struct MakePod {
  Role role = Role::kAttention;
  int64_t id = 0;
  Node object;
};
// Label and readiness gate show which pods are members of the committed topology.
struct MarkPod {
  enum class Change {
    kJoin,     // both, in one write
    kLabel,    // the label is missing
    kUnlabel,  // it counts no more for evictions and scalers
    kShut,     // the gate is closed
  };
  Change change = Change::kJoin;
  PodSeen pod;
};
struct DeletePod {
  PodRemoval removal;
};

// Of MoETopologies. `topology` is the object's name.
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
struct PrepareEpoch {  // the call to the members is begun
  std::string topology;
  int64_t epoch = 0;
};
struct CommitEpoch {
  std::string topology;
  int64_t epoch = 0;
};
struct TellEpoch {  // members learn that it is committed: the call is begun
  std::string topology;
  int64_t epoch = 0;
};
struct DropEpoch {  // members learn that it is given up: the call is begun
  std::string topology;
  int64_t epoch = 0;
};
struct AbortEpoch {  // the record: nothing is proposed
  std::string topology;
  int64_t epoch = 0;
  std::string why;
};
struct EndEpoch {  // the record: the committed epoch is over
  std::string topology;
  int64_t epoch = 0;
  std::string why;
};
// The members end their answers and leave (epoch_end.h): an exchange that goes on over many passes.
struct ReleaseMembers {
  std::string topology;
  MemberOrder order;
  std::optional<EpochEnd::Beside> beside;
  MonotonicTime deadline;
};
// The record's annotation or status. `is_best_effort`: nothing rests on it; what is refused is not
// reported, and tried again with the next numbers.
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

struct WriteScalerStatus {
  Role role = Role::kAttention;
  Node next;
};
// `events` follow once it is written.
struct WriteStatus {
  Node next;
  std::vector<ServiceEvent> events;
};

using Action = std::variant<KeepCertificates, AskWorkers, MakeChild, ApplyChild, DeleteChild,
                            RefuseAdoption, ReservePodNames, MakePod, MarkPod, DeletePod,
                            MakeTopology, RaiseFence, ProposeEpoch, PrepareEpoch, CommitEpoch,
                            TellEpoch, DropEpoch, AbortEpoch, EndEpoch, ReleaseMembers,
                            UpdateTopology, DeleteTopology, WriteScalerStatus, WriteStatus>;

// What a pass does next, decided from one observation.
struct Plan {
  // The work, in order. When some of it has been done the service is observed and decided on anew.
  std::vector<Action> work;
  // The rest is for when no work is left, or what is left was refused: the status, Events, and what
  // the next pass has to know.
  std::vector<Action> report;
  std::vector<ServiceEvent> events;
  std::vector<std::string> settled;  // topologies about which nothing is to be said any more
  Remembered remembered;
  std::optional<MonotonicTime> again;  // look again then, if nothing happens before
  // What needs no call to be refused: a record that cannot be read.
  std::vector<Refusal> refused;
};

// The call by which a refusal of the action is known: "create Pod chat-experts-...-3".
std::string CallOf(const Action& action);

// For people and tests: a line for each action, Event and time, objects by their kinds and names.
// Times count from `now`.
std::string ToString(const Action& action, MonotonicTime now = {});
std::string ToString(const Plan& plan, MonotonicTime now);

}  // namespace janus::control
