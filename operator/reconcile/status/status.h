#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/fetch_progress.h"
#include "common/topology.h"
#include "operator/api/moeservice.h"
#include "operator/api/tree.h"
#include "operator/reconcile/capacity/service_plan.h"
#include "operator/reconcile/epochs/epoch_watch.h"
#include "operator/reconcile/model/fetched_model.h"
#include "operator/reconcile/scaling/scaling_memory.h"
#include "operator/reconcile/status/cause.h"
#include "operator/reconcile/status/conditions.h"

namespace janus::control {

// The image of the newest revision and the reasons for it. Operators of other releases keep it.
struct PinnedImage {
  std::string image = {};
  std::string restarted_at = {};  // the annotation's value
  std::string named = {};         // spec.image; empty: the operator's default
  Device device = Device::kCpu;   // of its workers
  friend bool operator==(const PinnedImage&, const PinnedImage&) = default;
};

// State of a role in one pass.
struct RoleStatus {
  Role role = Role::kAttention;
  int desired = 0;          // instances
  int pods = 0;             // alive pods; so `ready`, `updated` and `draining`
  int ready = 0;            // ready and committed
  int ready_instances = 0;  // the committed instances of those
  int updated = 0;          // of the newest revision
  int draining = 0;         // being deleted
  int64_t gpus = 0;         // held by its pods
  int committed = 0;        // instances in the committed topology
  int committed_pods = 0;   // their pods
  int standby = 0;          // extra pods that are to be ready
  int idle = 0;             // ready pods that are not committed
  int current = 0;   // of `committed`: alive, and of the newest revision (of any while paused)
  int outdated = 0;  // of `committed`: alive, of an earlier revision
  int64_t last_pod_id = 0;
  std::string selector = {};
  std::string crashing = {};      // "pod x: its worker's last words"
  std::string unplaceable = {};   // "pod x: the scheduler's words"
  std::string not_starting = {};  // "pod x: container y: the kubelet's words"
  std::string awaited = {};       // "pod x is not ready", or has failed, and why
  Cause no_room = {};             // a pod cannot be created: QuotaExceeded, AdmissionDenied
  bool is_external = false;       // its MoERoleScaler sets the wanted count
  std::string ignored = {};       // an autoscaler of the MoERoleScaler that it does not have
  Cause limit = {};               // why the count differs: AtMin, AtMax, Paused, AdoptRefused,
                                  // InsufficientCapacity
};

struct TopologyStatus {
  std::string name = {};
  int64_t epoch = 0;  // 0: nothing is committed
  int m = 0;
  int n = 0;
  std::string mode = {};
  std::string gate = {};
  std::string mode_why = {};  // "Direct: 4.9 ms a round, ..."; of the next epoch, if it differs
  int micro_batches = 1;
  std::string placement_hash = {};
  bool is_told = false;     // every live member knows of it
  bool has_lost = false;    // one of its members is not alive
  std::string lost = {};    // why it no longer works though all are alive; empty: it works
  std::string reason = {};  // of the current step or last problem (EpochDriver); empty: none
  std::string message = {};
  std::optional<int64_t> imbalance_permille = {};
};

// A pool of a service that uses pools.
struct PoolStatus {
  int number = 1;
  bool drains = false;  // it is no longer wanted
  int pods = 0;         // that are still there
  TopologyStatus topology = {};
  Cause awaited = {};  // what its next epoch waits for
};

// Decisions on counts, and what requests got.
struct ScalingStatus {
  bool is_scaled = false;  // a role is in mode SLO
  std::optional<DecisionRecord> last;
  std::vector<DecisionRecord> history;
  bool has_target = false;  // spec.slo.tpot
  bool is_judged = false;   // this process has read counters
  double share_wanted = 0;  // of requests that should keep the targets, 0..1
  double ended = 0;         // requests within kAttainmentWindow
  double attained = 0;      // those of them that kept both targets
};

// Input of a status.
struct StatusFacts {
  int64_t generation = 0;
  RoleStatus attention;
  RoleStatus experts;
  TopologyStatus topology;        // of the first pool
  std::vector<PoolStatus> pools;  // all; empty: the service uses no pools
  int desired_pools = 0;          // 0: likewise
  int gateways_available = 0;
  int gateways_wanted = 0;
  Cause no_endpoint;            // the Service is missing, or has another owner
  std::string endpoint;         // its URL in the cluster; empty: none
  std::string gateway_trouble;  // "pod x: why it does not run"; empty: none known
  Cause invalid;                // Stalled: only the user can fix it
  Cause capacity;               // something does not fit
  Cause awaited;                // what the next epoch waits for
  Cause refused;                // an object of ours cannot be created: a foreign one has its name
  std::string fails;            // what has been failing for a while, in the server's words
  Cause replacing;              // another model replaces the previous one
  Cause held_back;              // what is wanted waits for that, for resources, or for its model
  Cause fetching;               // the newest spec's model is not there yet
  bool predecessor_serves = false;  // the previous model still serves
  int64_t old_gpus = 0;             // held by its pods
  std::string asleep;               // why no instance should serve; empty: some should
  bool is_paused = false;           // edits wait meanwhile
  bool has_waiting_edits = false;   // while it is paused
  bool is_plain_text = false;       // the user has disabled certificates
  std::string release;  // of the operator, for status.operator; empty: the field is left out
  std::string rival;    // another release that watches the service too; empty: none
  WallTime progressed;  // when the service last progressed
  WallTime now;
  PinnedImage pinned;
  std::string model_digest;
  std::string model_repo;  // of the model that was fetched; empty: from elsewhere
  FetchedModel fetched;
  std::optional<FetchProgress> progress;  // of the download that goes on
  std::optional<ServicePlan> plan;        // absent: unknown, and status.effective is kept
  int gateway_replicas = 0;
  EpochWatch::Answers answers = EpochWatch::Answers::kUnknown;  // of the committed epoch's members
  std::string unanswered;                                       // which member is silent, and why
  ScalingStatus scaling;
  bool is_void = false;  // timed devices: too many waits overran lately
  std::optional<int64_t> tokens_per_second;
  std::optional<int64_t> tpot_microseconds;  // of the spec's target percentile;
  std::optional<int64_t> ttft_microseconds;  // nothing without a target

  const RoleStatus& Of(Role role) const { return role == Role::kAttention ? attention : experts; }
};

// How long a service may lack progress before Progressing reports it.
inline constexpr std::chrono::seconds kProgressDeadline{600};

// Each type of kConditionTypes once, in that order. What True means, and the reasons:
//
//   Ready             Available, and both roles and the topology are as this generation wants
//   Available         a gateway answers and a committed topology serves: GatewayNotReady,
//                     NoTopology, TopologyNotReady, Suspended, AdoptRefused, QuotaExceeded,
//                     AdmissionDenied
//   Progressing       it is in, or moves toward, the wanted state: Complete, Working,
//                     FetchingModel; False: ProgressDeadlineExceeded, AdoptRefused, InvalidSpec,
//                     NotSupported, InsufficientCapacity, AnotherOperator, ModelFetchFailed
//   AttentionReady,   enough committed and live instances: AsWanted, Suspended; False:
//   ExpertsReady      CrashLooping, InsufficientCapacity, ContainerNotStarting, QuotaExceeded,
//                     AdmissionDenied, WaitingForPods, InvalidSpec, NotSupported
//   TopologyReady     a topology is committed and its members know: Committed; False: NoTopology,
//                     Preparing, PrepareFailed, WorkerUnreachable, EpochLost, MemberLost,
//                     WaitingForPods, ModelUnknown, ModelNotFound, FetchingModel,
//                     ModelFetchFailed
//   ScalingReady      counts follow their source: Static, External, AtMin, AtMax, or the reason of
//                     the last decision (mode SLO); False: NoMetrics, NoProfile, BadStatistics,
//                     InvalidPolicy, ImpossibleSLO, Paused, AdoptRefused, InsufficientCapacity;
//                     Unknown: NotDecided
//   MetricsAvailable  all members answer questions: Collected; False: MembersSilent;
//                     Unknown: NotCollected
//   SLOMet            enough requests keep the targets: Met; False: SLOViolated; Unknown:
//                     NoTarget, NoMetrics, NoTraffic
//   CapacityAvailable everything wanted fits: Sufficient; False: InsufficientCapacity,
//                     QuotaExceeded, AdmissionDenied
//   Stalled           no progress until the user changes the spec: InvalidSpec, NotSupported;
//                     False: Reconciling
//
// Transition times are not set. Pure.
std::vector<Condition> ConditionsOf(const StatusFacts& seen);

// True for a bound of the count (AtMin, AtMax): the request is followed up to it.
bool IsBound(const Cause& limit);

// The service with its new status. `service` is the newest; transition times come from its
// conditions. Pure.
Node WithStatus(const Node& service, const StatusFacts& seen);

// Whether to write the status of `after` over that of `before`. kNow: a condition's status or
// reason, the observed generation, a role's desired count, or the operator's own data (ids, image)
// differ. kWords: the message of a condition that asks for help, or how far a download is; a reader
// waits for it. kNumbers: something else differs, which can wait.
enum class StatusChange { kNone, kNumbers, kWords, kNow };
StatusChange Compare(const Node& before, const Node& after);

// The measured number to show: the previous one unless it has changed by a twentieth. Pure.
std::optional<int64_t> HeldNumber(std::optional<int64_t> was, std::optional<int64_t> is);

// Shortest time between writes of numbers only.
inline constexpr std::chrono::seconds kNumbersPeriod{60};
// The same for messages: a message can name a pod after pod.
inline constexpr std::chrono::seconds kWordsPeriod{3};

// Reads and writes the pinned image in the status. Pure.
PinnedImage PinnedImageOf(const Node& service);
void SetPinnedImage(Node& service, const PinnedImage& pinned);

// status.roles[role].desiredInstances. Pure.
std::optional<int> DesiredInstances(const Node& service, Role role);

// status.roles[role].lastPodId, 0 if absent; and a setter that raises it. Pure.
int64_t LastPodId(const Node& service, Role role);
void SetLastPodId(Node& service, Role role, int64_t id);

}  // namespace janus::control
