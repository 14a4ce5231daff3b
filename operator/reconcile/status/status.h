#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/topology.h"
#include "operator/api/moeservice.h"
#include "operator/api/tree.h"
#include "operator/reconcile/capacity/service_plan.h"
#include "operator/reconcile/epochs/epoch_watch.h"
#include "operator/reconcile/status/cause.h"
#include "operator/reconcile/status/conditions.h"

namespace janus::control {

// The image of the newest revision, and what it was chosen for: an operator of another release
// leaves it as it is.
struct PinnedImage {
  std::string image = {};
  std::string restarted_at = {};  // the annotation's value
  std::string named = {};         // spec.image; empty: it is the operator's own
  Device device = Device::kCpu;   // on which its workers compute
  friend bool operator==(const PinnedImage&, const PinnedImage&) = default;
};

// What a pass has seen of a role. Instances and pods are the same number while a pod has one.
struct RoleStatus {
  Role role = Role::kAttention;
  int desired = 0;    // instances
  int pods = 0;       // that live
  int ready = 0;      // Ready, and committed
  int updated = 0;    // of the newest revision
  int draining = 0;   // on their way out
  int64_t gpus = 0;   // that its pods hold
  int committed = 0;  // instances of the committed topology
  int current = 0;    // of those: alive and of the newest revision, or of any while paused
  int outdated = 0;   // of those: alive and of an earlier revision
  int64_t last_pod_id = 0;
  std::string selector = {};
  std::string crashing = {};      // "pod x: its worker's last words"
  std::string unplaceable = {};   // "pod x: the scheduler's words"
  std::string not_starting = {};  // "pod x: container y: the kubelet's words"
  std::string awaited = {};       // "pod x is not ready", or has failed, and why
  Cause no_room = {};             // a pod cannot be made: QuotaExceeded
  bool is_external = false;       // its MoERoleScaler says how many are wanted
  Cause limit = {};               // why it is not as many: AtMin, AtMax, Paused, AdoptRefused,
                                  // InsufficientCapacity
};

struct TopologyStatus {
  std::string name = {};
  int64_t epoch = 0;  // 0: nothing is committed
  int m = 0;
  int n = 0;
  std::string mode = {};
  int micro_batches = 1;
  std::string placement_hash = {};
  bool is_told = false;     // every member that lives has heard of it
  bool has_lost = false;    // a member of it is not alive
  std::string lost = {};    // why it goes on no more though all are alive; empty: it does
  std::string reason = {};  // of what is under way or went wrong (EpochDriver); empty: nothing
  std::string message = {};
  std::optional<int64_t> imbalance_permille = {};
};

// Everything that a status is made of.
struct StatusFacts {
  int64_t generation = 0;
  RoleStatus attention;
  RoleStatus experts;
  TopologyStatus topology;
  int gateways_available = 0;
  int gateways_wanted = 0;
  Cause no_endpoint;            // the Service is missing, or has another owner
  std::string gateway_trouble;  // "pod x: why it does not run"; empty: nothing is known
  Cause invalid;                // Stalled: only the user can help
  Cause capacity;               // something has no room
  Cause held;                   // ScalingReady is False
  Cause awaited;                // what the next epoch waits for
  Cause refused;                // an object of ours cannot be created: a foreign one has its name
  std::string fails;            // what has failed for a while, in the server's words
  Cause replacing;              // another model takes the place of the one before, which goes
  Cause held_back;              // what is wanted waits for that, or for room
  bool predecessor_serves = false;  // that one does
  int64_t old_gpus = 0;             // that its pods hold
  std::string asleep;               // why no instance serves, on purpose; empty: some should
  bool is_paused = false;           // edits wait meanwhile
  bool has_waiting_edits = false;   // while it is paused
  bool is_plain_text = false;       // the user has disabled certificates
  WallTime progressed;              // when anything of it last moved
  WallTime now;
  PinnedImage pinned;
  std::string model_digest;
  std::optional<ServicePlan> plan;  // absent: not known, status.effective stays
  int gateway_replicas = 0;
  EpochWatch::Answers answers = EpochWatch::Answers::kUnknown;  // of the committed epoch's members
  std::string unanswered;  // which one does not answer, and why
  std::optional<int64_t> tokens_per_second;
  std::optional<int64_t> tpot_microseconds;  // at the percentile of the spec's target; without one:
  std::optional<int64_t> ttft_microseconds;  // nothing

  const RoleStatus& Of(Role role) const { return role == Role::kAttention ? attention : experts; }
};

// How long a service may stand still short of what is wanted before Progressing says so.
inline constexpr std::chrono::seconds kProgressDeadline{600};

// Every type of kConditionTypes once, in that order. What each True means, and the reasons:
//
//   Ready             Available, and both roles and the topology are as this generation wants
//   Available         a gateway answers and a committed topology serves: GatewayNotReady,
//                     NoTopology, TopologyNotReady, Suspended, AdoptRefused, QuotaExceeded
//   Progressing       it is, or comes closer to, what is wanted: Complete, Working; False:
//                     ProgressDeadlineExceeded, AdoptRefused, InvalidSpec, NotSupported,
//                     InsufficientCapacity
//   AttentionReady,   committed and alive instances come to what is wanted: AsWanted, Suspended;
//   ExpertsReady      False: CrashLooping, InsufficientCapacity, ContainerNotStarting,
//                     QuotaExceeded, WaitingForPods, InvalidSpec, NotSupported
//   TopologyReady     a topology is committed and its members know: Committed; False: NoTopology,
//                     Preparing, PrepareFailed, WorkerUnreachable, EpochLost, MemberLost,
//                     WaitingForPods, ModelUnknown
//   ScalingReady      counts follow their source: Static, External, AtMin, AtMax; False:
//                     NotSupported, Paused, AdoptRefused, InsufficientCapacity
//   MetricsAvailable  all members answer what they are asked: Collected; False: MembersSilent;
//                     Unknown: NotCollected
//   SLOMet            Unknown, NoMetrics
//   CapacityAvailable all that is wanted has room: Sufficient; False: InsufficientCapacity,
//                     QuotaExceeded
//   Stalled           nothing goes on until the user changes the spec: InvalidSpec, NotSupported;
//                     False: Reconciling
//
// Transition times are not set. Pure.
std::vector<Condition> ConditionsOf(const StatusFacts& seen);

// Whether a limit is of the count that may be had (AtMin, AtMax): it is followed as far as it goes.
bool IsBound(const Cause& limit);

// The service with its new status. `service` is the newest; its conditions give the transition
// times. Pure.
Node WithStatus(const Node& service, const StatusFacts& seen);

// Whether `after`'s status is to be written over `before`'s: now, when a condition's status or
// reason, the observed generation, a role's desired count, or what the operator itself remembers
// (ids, image) differ; as numbers, which can wait, when anything else does.
enum class StatusChange { kNone, kNumbers, kNow };
StatusChange Compare(const Node& before, const Node& after);

// The measured number to show: the one before, unless it has moved by a twentieth. Pure.
std::optional<int64_t> HeldNumber(std::optional<int64_t> was, std::optional<int64_t> is);

// Numbers alone are written no more often than this.
inline constexpr std::chrono::seconds kNumbersPeriod{60};

// What the status says of it. Pure.
PinnedImage PinnedImageOf(const Node& service);
void SetPinnedImage(Node& service, const PinnedImage& pinned);

// status.roles[role].desiredInstances. Pure.
std::optional<int> DesiredInstances(const Node& service, Role role);

// status.roles[role].lastPodId, 0 where there is none; and the service with it raised. Pure.
int64_t LastPodId(const Node& service, Role role);
void SetLastPodId(Node& service, Role role, int64_t id);

}  // namespace janus::control
