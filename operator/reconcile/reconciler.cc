#include "operator/reconcile/reconciler.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <utility>

#include "common/fingerprint.h"
#include "operator/api/parse.h"
#include "operator/api/validate.h"
#include "operator/reconcile/child_writer.h"
#include "operator/reconcile/epoch_driver.h"
#include "operator/reconcile/names.h"
#include "operator/reconcile/nodes.h"
#include "operator/reconcile/own_writes.h"
#include "operator/reconcile/owned.h"
#include "operator/reconcile/pass_context.h"
#include "operator/reconcile/pod_writer.h"
#include "operator/reconcile/revision.h"
#include "operator/reconcile/status.h"

namespace janus::control {
namespace {

// A cache that has not shown for so long what we made: ask the server.
constexpr std::chrono::seconds kCacheLag{60};
// A refusal that only people can mend, or only somebody else's action, is tried again after this.
constexpr std::chrono::seconds kRefusedPause{300};

MonotonicTime At(MonotonicTime now, Seconds later) {
  return now + std::chrono::duration_cast<MonotonicTime::duration>(later);
}

void Earlier(std::optional<MonotonicTime>& time, MonotonicTime other) {
  time = time ? std::min(*time, other) : other;
}

RoleSpec& SpecOf(MoEService& service, Role role) {
  if (role == Role::kAttention) return service.spec.roles.attention;
  return service.spec.roles.experts;
}

bool IsBelow(const std::string& path, const std::string& folder) {
  if (folder == "/") return true;
  return path == folder || path.starts_with(folder + "/");
}

std::string JoinErrors(const FieldErrors& errors) {
  std::string out;
  for (const FieldError& error : errors) {
    if (!out.empty()) out += "; ";
    out += error.path + ": " + error.message;
  }
  return out;
}

// status.roles[role].desiredInstances.
std::optional<int> DesiredBefore(const Node& service, Role role) {
  const Node* roles = FindAt(service, {"status", "roles"});
  if (roles == nullptr) return std::nullopt;
  for (const Node& one : roles->items) {
    if (TextAt(one, {"name"}) != ToString(role)) continue;
    if (const auto desired = IntegerAt(one, {"desiredInstances"})) {
      return static_cast<int>(*desired);
    }
  }
  return std::nullopt;
}

}  // namespace

struct Reconciler::Memory {
  explicit Memory(std::string its_uid, ObjectApi& api, MemberCalls& calls)
      : uid(std::move(its_uid)), epochs(api, calls) {}

  const std::string uid;
  OwnWrites writes;
  MendedVersions mended;
  EpochDriver epochs;
  uint64_t moved_mark = 0;  // of what moves while a service comes up; another one is progress
  std::optional<WallTime> moved;
  std::optional<MonotonicTime> numbers_written;
};

// One role in one pass.
struct RolePass {
  Role role;
  RoleWanted wanted;
  std::vector<PodSeen> pods;
  PodPlan plan;
};

class Reconciler::OnePass {
 public:
  OnePass(Reconciler& owner, Memory& memory, Node tree, const std::stop_token& stop)
      : owner_(owner),
        memory_(memory),
        tree_(std::move(tree)),
        now_(owner.clock_.Now()),
        wall_(owner.clock_.WallNow()),
        limits_{owner.options_.call_timeout, stop} {}

  PassResult Run();

 private:
  PassContext Context() {
    return {owner_.api_, owner_.caches_, service_, memory_.writes, now_, limits_, note_, troubles_};
  }
  bool ResolveDoubts();
  void ReadSpec();
  void CheckSpec();
  void PinImage();
  void Plan();
  void ReadWorld();
  void PlanRole(RolePass& role);
  void WriteAllChildren();
  void MakeAllPods();
  std::optional<Topology> NextTopology();
  void AdvanceEpochs();
  void MarkAndRemove();
  ServiceSeen Seen();
  RoleStatus SeenOf(const RolePass& role);
  WallTime Moved(const ServiceSeen& seen);
  void WriteStatus();
  void TellTransitions(const Node& before, const Node& after);
  void Tell(const Note& note);
  PassResult Result();

  bool ServesCommitted();
  bool wants_pods() const {
    return !service_.spec.suspend && roles_[0].wanted.pods + roles_[1].wanted.pods > 0;
  }

  Reconciler& owner_;
  Memory& memory_;
  Node tree_;  // the MoEService, newest
  const MonotonicTime now_;
  const WallTime wall_;
  const CallLimits limits_;
  MoEService service_;
  TakeNote note_ = [this](const Note& note) { Tell(note); };
  std::vector<Trouble> troubles_;
  std::optional<MonotonicTime> again_;

  Finding invalid_;
  Finding capacity_;
  Finding awaited_;
  std::string worker_image_;
  std::string restarted_at_;
  std::optional<PlannedService> planned_;
  std::array<RolePass, 2> roles_{{{Role::kAttention, {}, {}, {}}, {Role::kExperts, {}, {}, {}}}};
  std::optional<Node> record_;  // the MoETopology
  std::optional<MoETopology> topology_;
  std::set<std::string> committed_;  // uids of pods
  std::set<InstanceId> alive_;
};

bool Reconciler::OnePass::ResolveDoubts() {
  memory_.writes.DoubtOlderThan(now_ - kCacheLag);
  const std::set<OwnWrites::Place> doubts = memory_.writes.unresolved();
  for (const OwnWrites::Place& place : doubts) {
    ApiResult<Node> there =
        owner_.api_.Get(*place.first, place.second, Subresource::kNone, limits_);
    if (there.ok()) {
      const bool ours = IsControlledBy(*there, memory_.uid);
      memory_.writes.Resolve(place, ours ? std::optional(*std::move(there)) : std::nullopt, now_);
    } else if (there.error().code == StatusCode::kNotFound) {
      memory_.writes.Resolve(place, std::nullopt, now_);
    } else {
      troubles_.push_back(
          TroubleOf(there.error(), "read " + place.first->kind + " " + place.second.name));
      return false;
    }
  }
  return true;
}

void Reconciler::OnePass::ReadSpec() {
  ParsedService parsed = ParseMoEService(tree_);
  service_ = std::move(parsed.object);
  if (!parsed.errors.empty()) invalid_ = {"InvalidSpec", JoinErrors(parsed.errors)};
}

void Reconciler::OnePass::CheckSpec() {
  if (invalid_) return;
  FieldErrors errors = ValidateSchema(service_);
  const std::optional<HostPathSource>& host_path = service_.spec.model.source.host_path;
  if (errors.empty() && host_path &&
      std::none_of(owner_.options_.host_paths.begin(), owner_.options_.host_paths.end(),
                   [&](const std::string& folder) { return IsBelow(host_path->path, folder); })) {
    errors.push_back({"spec.model.source.hostPath.path",
                      "is '" + host_path->path +
                          "', below none of the folders this operator allows; have its "
                          "administrator add one to hostPaths, or use another source",
                      0});
  }
  if (!errors.empty()) {
    invalid_ = {"InvalidSpec", JoinErrors(errors)};
    return;
  }
  errors = ValidateSupported(service_, owner_.options_.ground);
  if (!errors.empty()) invalid_ = {"NotSupported", JoinErrors(errors)};
}

void Reconciler::OnePass::PinImage() {
  worker_image_ = TextAt(tree_, {"status", "workerImage"});
  restarted_at_ = TextAt(tree_, {"status", "restartedAt"});
  if (invalid_) return;
  const auto annotation = service_.metadata.annotations.find(std::string(kRestartedAtAnnotation));
  const std::string restart =
      annotation == service_.metadata.annotations.end() ? "" : annotation->second;
  if (!service_.spec.image.empty()) {
    worker_image_ = service_.spec.image;
  } else if (worker_image_.empty() || restart != restarted_at_) {
    worker_image_ = owner_.options_.worker_image;
  }
  restarted_at_ = restart;
}

// What of the counts is known without the model comes first, so that pods start while it is read.
void Reconciler::OnePass::Plan() {
  for (RolePass& role : roles_) {
    role.wanted.now = wall_;
    role.wanted.rolls = !service_.spec.paused;
    const std::optional<int> before = DesiredBefore(tree_, role.role);
    role.wanted.pods = before.value_or(0);
    if (invalid_) continue;
    role.wanted.revision = RevisionOf(service_, role.role, worker_image_);
    RoleSpec& spec = SpecOf(service_, role.role);
    // Paused counts stay what they were.
    if (service_.spec.paused && before && *before > 0 && spec.replicas) spec.replicas = *before;
    if (spec.replicas) role.wanted.pods = *spec.replicas;
  }
  if (invalid_) return;
  // Nobody serves: there is nothing to plan.
  if (SpecOf(service_, Role::kAttention).replicas == 0) return;
  janus::Result<PlannedService> planned = owner_.planner_.Plan(service_);
  if (planned.ok()) {
    planned_ = *std::move(planned);
    for (RolePass& role : roles_) {
      if (SpecOf(service_, role.role).replicas) continue;
      role.wanted.pods = role.role == Role::kAttention ? planned_->plan.m : planned_->plan.n;
    }
  } else if (planned.status().code() == StatusCode::kInvalidArgument) {
    invalid_ = {"InvalidSpec", planned.status().message()};
  } else if (planned.status().code() == StatusCode::kResourceExhausted) {
    capacity_ = {"InsufficientCapacity", planned.status().message()};
  } else {
    awaited_ = {"ModelUnknown", planned.status().message()};
  }
  if (service_.spec.suspend) {
    for (RolePass& role : roles_) role.wanted.pods = 0;
  }
}

void Reconciler::OnePass::ReadWorld() {
  const ObjectKey key = KeyOf(tree_);
  const std::string index = key.namespace_ + "/" + key.name;
  const Caches& caches = owner_.caches_;
  std::set<std::string> there;
  std::vector<PodSeen> all;
  for (const Node& node : memory_.writes.NewestOf(kPods, caches.pods.Find(kByService, index))) {
    there.emplace(UidOf(node));
    if (!IsControlledBy(node, memory_.uid)) continue;
    std::optional<PodSeen> pod = ReadPod(node);
    if (!pod) continue;
    pod->is_leaving = pod->is_leaving || memory_.writes.IsDeleted(pod->uid);
    all.push_back(*std::move(pod));
  }
  for (const Node& budget : caches.budgets.Find(kByService, index)) there.emplace(UidOf(budget));
  memory_.writes.ForgetDeleted(there);
  std::map<std::string, NodeSeen> nodes;
  for (const PodSeen& pod : all) {
    if (pod.node.empty() || nodes.contains(pod.node)) continue;
    if (const auto node = caches.nodes.Get({"", pod.node})) nodes[pod.node] = ReadNode(*node);
  }
  if (const std::optional<WallTime> lost = JudgeByNodes(nodes, wall_, all)) {
    Earlier(again_, At(now_, *lost - wall_));
  }
  alive_ = AliveInstances(all);
  for (PodSeen& pod : all) {
    roles_[pod.role == Role::kExperts].pods.push_back(std::move(pod));
  }
  for (Node& node :
       memory_.writes.NewestOf(kTopologies, caches.topologies.Find(kByService, index))) {
    if (IsControlledBy(node, memory_.uid)) record_ = std::move(node);
  }
  if (record_) {
    Parsed<MoETopology> parsed = ParseMoETopology(*record_);
    if (parsed.errors.empty()) topology_ = std::move(parsed.object);
  }
  if (topology_ && topology_->spec.committed) committed_ = PodsOf(*topology_->spec.committed);
  if (planned_ && record_ && !invalid_ &&
      KeyOf(*record_).name != TopologyName(key.name, *planned_)) {
    invalid_ = {"NotSupported",
                "spec.model: other weights or another dtype cannot follow in the topology " +
                    KeyOf(*record_).name +
                    "; rollout SideBySide is not supported by this version; create another "
                    "MoEService"};
  }
}

void Reconciler::OnePass::PlanRole(RolePass& role) {
  // Nobody serves while a service sleeps, whatever is committed: it is what it wakes up from.
  const std::set<std::string> none;
  role.plan = PlanPods(role.pods, role.wanted, wants_pods() ? committed_ : none);
  const bool crashes = std::any_of(role.pods.begin(), role.pods.end(),
                                   [](const PodSeen& pod) { return !pod.crash_loop.empty(); });
  if (!crashes) return;
  WallTime youngest;
  for (const PodSeen& pod : role.pods) youngest = std::max(youngest, pod.created);
  if (youngest + kCrashPause > wall_) Earlier(again_, At(now_, youngest + kCrashPause - wall_));
}

void Reconciler::OnePass::WriteAllChildren() {
  CommittedPods committed;
  if (wants_pods() && topology_ && topology_->spec.committed) {
    for (const TopologyInstance& one : topology_->spec.committed->instances) {
      ++(one.role == Role::kAttention ? committed.attention : committed.experts);
    }
  }
  PassContext context = Context();
  WriteChildren(ChildrenOf(service_, owner_.options_.defaults, committed), memory_.mended, context);
}

void Reconciler::OnePass::MakeAllPods() {
  std::vector<PodOrder> orders;
  for (const RolePass& role : roles_) {
    if (role.plan.create == 0) continue;
    orders.push_back({role.role, role.plan.create, role.wanted.revision, worker_image_});
  }
  if (orders.empty()) return;
  std::array<int64_t, 2> last{LastPodId(tree_, Role::kAttention), LastPodId(tree_, Role::kExperts)};
  PassContext context = Context();
  if (!ReserveIds(orders, worker_image_, restarted_at_, tree_, context)) return;
  for (const PodOrder& order : orders) {
    if (context.is_stopped()) return;
    MakePods(order, last[order.role == Role::kExperts] + 1, owner_.options_.defaults, context);
  }
}

// Nothing: it is better to wait, or there is nothing to serve with.
std::optional<Topology> Reconciler::OnePass::NextTopology() {
  if (!planned_ || invalid_ || !wants_pods()) return std::nullopt;
  bool has_lost = false;
  if (topology_ && topology_->spec.committed) {
    const TopologyRecord& committed = *topology_->spec.committed;
    has_lost = AliveOf(committed, alive_).size() < committed.instances.size();
    // Paused: only what is broken is mended.
    if (service_.spec.paused && !has_lost) return std::nullopt;
  }
  std::vector<WorkerSeen> workers;
  for (const RolePass& role : roles_) {
    const std::string awaited = AwaitedPod(role.pods, role.wanted, role.plan.members);
    if (!awaited.empty()) {
      awaited_ = {"WaitingForPods", "pod " + awaited + " is not ready yet"};
      Earlier(again_, At(now_, kAwaitedFor));
      if (!has_lost) return std::nullopt;
    }
    for (const std::string& uid : role.plan.members) {
      const auto pod = std::find_if(role.pods.begin(), role.pods.end(),
                                    [&](const PodSeen& one) { return one.uid == uid; });
      if (!pod->ip.empty()) workers.push_back(owner_.options_.locate(*pod));
    }
  }
  // As many as there are, if not all that are wanted: fewer may have to hold more experts each.
  std::array<int, 2> counts{};
  for (const WorkerSeen& worker : workers) ++counts[worker.role == Role::kExperts];
  if (counts[0] > 0 && counts[1] > 0 &&
      (counts[0] != planned_->plan.m || counts[1] != planned_->plan.n)) {
    MoEService fewer = service_;
    for (const RolePass& role : roles_) {
      RoleSpec& spec = SpecOf(fewer, role.role);
      spec.scaling.reset();
      spec.replicas = counts[role.role == Role::kExperts];
    }
    janus::Result<PlannedService> planned = owner_.planner_.Plan(fewer);
    if (!planned.ok()) {
      if (!awaited_) awaited_ = {"WaitingForPods", planned.status().message()};
      return std::nullopt;
    }
    planned_ = *std::move(planned);
  }
  // Its number is given when it is proposed.
  janus::Result<Topology> topology = ComposeTopology(1, workers, planned_->plan, planned_->model);
  if (topology.ok()) return *std::move(topology);
  // Too few to hold the model: whoever is still to come makes it whole.
  if (!awaited_) awaited_ = {"WaitingForPods", topology.status().message()};
  return std::nullopt;
}

void Reconciler::OnePass::AdvanceEpochs() {
  EpochDriver::Situation situation{
      service_,       "",      record_,
      NextTopology(), {},      alive_,
      now_,           limits_, [wake = owner_.wake_, key = KeyOf(tree_)] { wake(key); }};
  if (planned_) {
    situation.plan = planned_->plan;
    situation.name = TopologyName(service_.metadata.name, *planned_);
  }
  EpochDriver::Outcome outcome =
      memory_.epochs.Advance(std::move(situation), memory_.writes, note_);
  if (outcome.trouble) troubles_.push_back(*std::move(outcome.trouble));
  if (outcome.again) Earlier(again_, *outcome.again);
  record_ = std::move(outcome.record);
  committed_.clear();
  topology_.reset();
  if (!record_) return;
  Parsed<MoETopology> parsed = ParseMoETopology(*record_);
  if (!parsed.errors.empty()) return;
  topology_ = std::move(parsed.object);
  if (topology_->spec.committed) committed_ = PodsOf(*topology_->spec.committed);
}

void Reconciler::OnePass::MarkAndRemove() {
  const bool knows = topology_ && topology_->spec.committed;
  // Who is committed is a member once it has been told, and stays one until another epoch is.
  const bool is_told = knows && memory_.epochs.HasTold(topology_->spec.committed->epoch);
  PassContext context = Context();
  for (const RolePass& role : roles_) {
    std::set<std::string> members;
    for (const PodSeen& pod : role.pods) {
      if (!wants_pods() || !committed_.contains(pod.uid)) continue;
      if (is_told || pod.has_member_label) members.insert(pod.uid);
    }
    const std::set<std::string> truthful = MarkMembers(role.pods, members, context, wall_);
    if (context.is_stopped()) return;
    std::vector<PodRemoval> removals = role.plan.remove;
    // Planned before the epoch moved on: who has become a member since stays.
    std::erase_if(removals, [&](const PodRemoval& one) { return members.contains(one.uid); });
    RemovePods(removals, truthful, context);
    if (context.is_stopped()) return;
  }
}

// Whether the members know what is committed. A label is given when they do: what another process
// told them before this one began is not forgotten.
bool Reconciler::OnePass::ServesCommitted() {
  if (memory_.epochs.HasTold(topology_->spec.committed->epoch)) return true;
  for (const RolePass& role : roles_) {
    for (const PodSeen& pod : role.pods) {
      if (committed_.contains(pod.uid) && pod.is_live() && !pod.has_member_label) return false;
    }
  }
  return memory_.epochs.reason().empty();
}

RoleStatus Reconciler::OnePass::SeenOf(const RolePass& role) {
  RoleStatus out;
  out.role = role.role;
  out.desired = role.wanted.pods;
  out.last_pod_id = LastPodId(tree_, role.role);
  out.selector = std::string(kServiceLabel) + "=" + service_.metadata.name + "," +
                 std::string(kRoleLabel) + "=" + std::string(ToString(role.role)) + "," +
                 std::string(kMemberLabel) + "=true";
  for (const PodSeen& pod : role.pods) {
    const bool is_committed = committed_.contains(pod.uid);
    const bool is_new = pod.revision == role.wanted.revision;
    out.draining += pod.is_leaving;
    out.pods += pod.is_live();
    out.updated += pod.is_live() && is_new;
    out.ready += pod.is_live() && pod.is_ready && is_committed;
    out.current += is_committed && alive_.contains(InstanceOf(pod)) &&
                   (is_new || !role.wanted.rolls || role.wanted.revision.empty());
    const std::string name = "pod " + pod.name + ": ";
    if (pod.is_live() && !pod.crash_loop.empty()) out.crashing = name + pod.crash_loop;
    if (pod.is_live() && !pod.unplaceable.empty()) out.unplaceable = name + pod.unplaceable;
  }
  if (wants_pods() && topology_ && topology_->spec.committed) {
    for (const TopologyInstance& one : topology_->spec.committed->instances) {
      out.committed += one.role == role.role;
    }
  }
  return out;
}

// What moves while a service comes up, changes or heals.
WallTime Reconciler::OnePass::Moved(const ServiceSeen& seen) {
  Fingerprint mark;
  mark.Mix(static_cast<uint64_t>(seen.generation)).Mix(static_cast<uint64_t>(seen.topology.epoch));
  mark.Mix(static_cast<uint64_t>(seen.gateways_available)).Mix(uint64_t{seen.topology.is_told});
  for (const RolePass& role : roles_) {
    for (const PodSeen& pod : role.pods) {
      mark.Mix(pod.uid).Mix(uint64_t{pod.containers_ready}).Mix(uint64_t{pod.is_leaving});
    }
  }
  if (!memory_.moved) {
    // Another process has watched it before: it moved when a condition last did.
    memory_.moved = wall_;
    std::optional<WallTime> last;
    for (const Condition& one : ReadConditions(tree_)) {
      if (one.type != "Progressing")
        last = std::max(last.value_or(WallTime{}), one.last_transition);
    }
    if (last) memory_.moved = *last;
  } else if (mark.value() != memory_.moved_mark) {
    memory_.moved = wall_;
  }
  memory_.moved_mark = mark.value();
  return *memory_.moved;
}

ServiceSeen Reconciler::OnePass::Seen() {
  ServiceSeen seen;
  seen.generation = service_.metadata.generation;
  seen.now = wall_;
  seen.attention = SeenOf(roles_[0]);
  seen.experts = SeenOf(roles_[1]);
  seen.is_suspended =
      !invalid_ && (service_.spec.suspend || SpecOf(service_, Role::kAttention).replicas == 0);
  seen.invalid = invalid_;
  seen.capacity = capacity_;
  seen.awaited = awaited_;
  for (const Trouble& trouble : troubles_) {
    if (trouble.kind == TroubleKind::kInvalid && !seen.invalid) {
      seen.invalid = {trouble.reason, trouble.message};
    } else if (trouble.kind == TroubleKind::kCapacity && !seen.capacity) {
      seen.capacity = {trouble.reason, trouble.message};
    } else if (!trouble.reason.empty() && !seen.refused) {
      seen.refused = {trouble.reason, trouble.message};
    }
  }
  if (planned_) {
    seen.plan = planned_->plan;
    seen.model_digest = planned_->model_digest;
    if (!planned_->plan.held.empty()) seen.held = {"NotSupported", planned_->plan.held};
  }
  seen.gateway_replicas =
      service_.spec.gateway.replicas.value_or(owner_.options_.defaults.gateway_replicas);
  seen.gateways_wanted = seen.gateway_replicas;
  const ObjectKey gateway{service_.metadata.namespace_, GatewayName(service_.metadata.name)};
  if (const auto there =
          memory_.writes.Newest(kDeployments, gateway, owner_.caches_.deployments.Get(gateway))) {
    if (IsControlledBy(*there, memory_.uid)) {
      seen.gateways_available =
          static_cast<int>(IntegerAt(*there, {"status", "availableReplicas"}).value_or(0));
    }
  }
  // A service that sleeps without pods is woken with the operator's image of then.
  const bool sleeps = !wants_pods() && roles_[0].pods.empty() && roles_[1].pods.empty();
  if (!sleeps || invalid_) {
    seen.worker_image = worker_image_;
    seen.restarted_at = restarted_at_;
  }
  if (topology_) {
    TopologyStatus& topology = seen.topology;
    topology.name = topology_->metadata.name;
    topology.reason = memory_.epochs.reason();
    topology.message = memory_.epochs.message();
    if (const auto& committed = topology_->spec.committed) {
      topology.epoch = committed->epoch;
      topology.is_told = ServesCommitted();
      topology.has_lost = AliveOf(*committed, alive_).size() < committed->instances.size();
      for (const TopologyInstance& one : committed->instances) {
        ++(one.role == Role::kAttention ? topology.m : topology.n);
      }
      topology.mode = ToString(committed->mode);
      topology.micro_batches = committed->micro_batches;
      topology.placement_hash = committed->sha256.value_or("").substr(0, 16);
    }
  }
  seen.progressed = Moved(seen);
  return seen;
}

void Reconciler::OnePass::WriteStatus() {
  const Node next = WithStatus(tree_, Seen());
  const StatusChange change = Compare(tree_, next);
  if (change == StatusChange::kNone) return;
  if (change == StatusChange::kNumbers && memory_.numbers_written &&
      now_ < *memory_.numbers_written + kNumbersPeriod) {
    Earlier(again_, *memory_.numbers_written + kNumbersPeriod);
    return;
  }
  ApiResult<Node> written =
      owner_.api_.Update(kMoEServices, next, Subresource::kStatus, {}, limits_);
  if (!written.ok()) {
    troubles_.push_back(TroubleOf(written.error(), "write status"));
    return;
  }
  memory_.numbers_written = now_;
  TellTransitions(tree_, *written);
  memory_.writes.Wrote(kMoEServices, std::string(ResourceVersionOf(tree_)), *std::move(written),
                       now_);
}

// What `kubectl describe` shows of the past comes with the conditions' changes.
void Reconciler::OnePass::TellTransitions(const Node& before, const Node& after) {
  const std::vector<Condition> was = ReadConditions(before);
  for (const Condition& now : ReadConditions(after)) {
    const auto old = std::find_if(was.begin(), was.end(),
                                  [&](const Condition& one) { return one.type == now.type; });
    const bool is_new = old == was.end() || old->reason != now.reason;
    if (!is_new ||
        now.status != (now.type == "Stalled" ? ConditionStatus::kTrue : ConditionStatus::kFalse)) {
      continue;
    }
    if (now.type == "Stalled") {
      Tell({EventType::kWarning, "InvalidSpec", "Validate", now.message});
    } else if (now.type == "CapacityAvailable") {
      Tell({EventType::kWarning, "InsufficientCapacity", "Place", now.message});
    } else if (now.reason == "CrashLooping" && now.type != "Ready") {
      Tell({EventType::kWarning, "CrashLooping", "Run", now.message});
    }
  }
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    const auto from = DesiredBefore(before, role);
    const auto to = DesiredBefore(after, role);
    if (!from || !to || *from == *to) continue;
    Tell({EventType::kNormal, *from < *to ? "ScaledUp" : "ScaledDown", "Scale",
          std::string(ToString(role)) + ": from " + std::to_string(*from) + " to " +
              std::to_string(*to) + " instances"});
  }
}

void Reconciler::OnePass::Tell(const Note& note) {
  owner_.tell_({ReferenceTo(tree_), note.type, note.reason, note.action, note.text});
}

PassResult Reconciler::OnePass::Result() {
  PassResult out;
  for (const Trouble& trouble : troubles_) {
    const bool can_wait = trouble.kind == TroubleKind::kInvalid ||
                          trouble.kind == TroubleKind::kCapacity || !trouble.reason.empty();
    if (can_wait) {
      Earlier(again_, now_ + kRefusedPause);
    } else if (out.status.ok()) {
      out.status = trouble.kind == TroubleKind::kStop ? Cancelled(trouble.message)
                                                      : Unavailable(trouble.message);
    }
    if (trouble.retry_after) Earlier(again_, At(now_, *trouble.retry_after));
  }
  if (memory_.moved && wall_ < *memory_.moved + kProgressDeadline) {
    Earlier(again_, At(now_, *memory_.moved + kProgressDeadline - wall_));
  }
  out.again = again_;
  return out;
}

PassResult Reconciler::OnePass::Run() {
  if (!ResolveDoubts()) return Result();
  ReadSpec();
  CheckSpec();
  PinImage();
  Plan();
  ReadWorld();
  const PassContext context = Context();
  const auto is_stopped = [&] { return context.is_stopped(); };
  if (!invalid_ && !capacity_) {
    for (RolePass& role : roles_) PlanRole(role);
    WriteAllChildren();
    if (!is_stopped()) MakeAllPods();
  }
  if (!is_stopped()) AdvanceEpochs();
  if (!is_stopped() && !invalid_) MarkAndRemove();
  if (!is_stopped()) WriteStatus();
  return Result();
}

Reconciler::Reconciler(ObjectApi& api, const Caches& caches, ServicePlanner& planner,
                       MemberCalls& calls, const Clock& clock, TellEvent tell, WakeKey wake,
                       ReconcilerOptions options)
    : api_(api),
      caches_(caches),
      planner_(planner),
      calls_(calls),
      clock_(clock),
      tell_(std::move(tell)),
      wake_(std::move(wake)),
      options_(std::move(options)) {}

Reconciler::~Reconciler() = default;

Reconciler::Memory& Reconciler::MemoryOf(const ObjectKey& key, const std::string& uid) {
  std::unique_ptr<Memory> old;  // its calls end outside the lock
  const MutexLock lock(mu_);
  std::unique_ptr<Memory>& memory = memories_[key];
  if (memory == nullptr || memory->uid != uid) {
    old = std::exchange(memory, std::make_unique<Memory>(uid, api_, calls_));
  }
  return *memory;
}

void Reconciler::Forget(const ObjectKey& key) {
  std::unique_ptr<Memory> old;
  const MutexLock lock(mu_);
  const auto found = memories_.find(key);
  if (found == memories_.end()) return;
  old = std::move(found->second);
  memories_.erase(found);
}

void Reconciler::ForgetAll() {
  std::map<ObjectKey, std::unique_ptr<Memory>> old;
  const MutexLock lock(mu_);
  old.swap(memories_);
}

PassResult Reconciler::Pass(const ObjectKey& key, const std::stop_token& stop) {
  std::optional<Node> cached = caches_.services.Get(key);
  if (!cached) {
    Forget(key);
    return {};
  }
  Memory& memory = MemoryOf(key, std::string(UidOf(*cached)));
  std::optional<Node> tree = memory.writes.Newest(kMoEServices, key, std::move(cached));
  if (FindAt(*tree, {"metadata", "deletionTimestamp"}) != nullptr) {
    // What it owns goes with it; nothing is made any more.
    Forget(key);
    return {};
  }
  return OnePass(*this, memory, *std::move(tree), stop).Run();
}

}  // namespace janus::control
