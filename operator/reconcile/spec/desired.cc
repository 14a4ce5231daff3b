#include "operator/reconcile/spec/desired.h"

#include <algorithm>
#include <utility>

#include "operator/reconcile/capacity/pinned_plan.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/pass/wake_time.h"
#include "operator/reconcile/pods/revision.h"
#include "operator/reconcile/pods/roster.h"
#include "operator/reconcile/scaling/scaled_counts.h"
#include "operator/reconcile/spec/external_counts.h"
#include "operator/reconcile/spec/held_spec.h"
#include "operator/reconcile/spec/read_spec.h"
#include "operator/reconcile/status/words.h"

namespace janus::control {
namespace {

// Pause before a planner without an answer is asked again.
constexpr std::chrono::seconds kModelPause{2};

// True if a role has no replicas, so the service cannot serve.
bool HasNoReplicas(const MoEService& service) {
  return SpecOf(service, Role::kAttention).replicas == 0 ||
         SpecOf(service, Role::kExperts).replicas == 0;
}

// The sequence room of a serving attention instance of the wanted revision; others get the same.
std::optional<SequenceRoom> HeldRoom(const Side& side, const RoleWanted& attention) {
  const TopologyRecord* const committed = side.committed();
  if (committed == nullptr) return std::nullopt;
  for (const PodSeen& pod : side.pods[0]) {
    if (!pod.is_live() || pod.revision != attention.revision) continue;
    for (int index = 0; index < pod.instances; ++index) {
      if (const auto room = RoomOf(*committed, InstanceOf(pod, index))) return room;
    }
  }
  return std::nullopt;
}

// While paused, a count stays as it was.
void KeepPausedCount(Role role, int before, RoleSpec& spec, Cause& limit) {
  if (*spec.replicas != before) {
    limit = {"Paused", "spec.roles." + std::string(ToString(role)) + ".replicas is " +
                           std::to_string(*spec.replicas) + "; spec.paused keeps the count at " +
                           std::to_string(before)};
  }
  spec.replicas = before;
}

// The counts that follow from the spec without the model.
void CountRole(const PlanningSide& from, Role role, Desired& out) {
  RoleDesired& desired = out.Of(role);
  const std::optional<int> before = DesiredInstances(from.seen.tree, role);
  desired.wanted.now = from.seen.wall;
  desired.wanted.per_pod = SpecOf(out.service, role).instances_per_pod;
  desired.wanted.rolls = !out.service.spec.paused;
  desired.wanted.instances = before.value_or(0);
  if (!out.acts()) return;
  desired.wanted.standby = out.service.spec.scaling.standby;
  desired.wanted.shrinks = out.service.spec.drain.without_capacity == WithoutCapacity::kShrink;
  desired.wanted.revision =
      RevisionOf(out.service, role, ImageOfPods(out.service, out.pinned, from.options));
  RoleSpec& spec = SpecOf(out.service, role);
  out.scaling_of_spec[role == Role::kExperts] = spec.scaling;
  if (out.service.spec.paused && before && *before > 0 && spec.replicas) {
    KeepPausedCount(role, *before, spec, desired.limit);
  }
  if (spec.replicas) {
    desired.wanted.instances = *spec.replicas;
  } else {
    const int least = spec.scaling ? spec.scaling->min_replicas.value_or(1) : 1;
    desired.wanted.instances = std::max(desired.wanted.instances, least);
  }
  if (IsExternal(spec)) TakeAskedCount(from, role, before, out);
  if (spec.is_slo()) TakeScaledCount(from, role, before, out);
}

// While no worker can be asked for the model: the pod that will be the first, or null.
const PodSeen* FirstToReport(const PlanningSide& from, const Desired& desired) {
  if (!desired.workers.workers.empty()) return nullptr;
  for (const std::vector<PodSeen>& pods : from.side.pods) {
    for (const PodSeen& pod : pods) {
      if (pod.is_live() && !pod.containers_ready) return &pod;
    }
  }
  return nullptr;
}

void TakePlan(const PlanningSide& from, janus::Result<PlannedService> planned, Desired& out) {
  if (planned.ok()) {
    out.planned = *std::move(planned);
    for (const Role role : {Role::kAttention, Role::kExperts}) {
      const RoleSpec& spec = SpecOf(out.service, role);
      if (spec.replicas) continue;
      RoleDesired& desired = out.Of(role);
      desired.wanted.instances =
          role == Role::kAttention ? out.planned->plan.m : out.planned->plan.n;
      if (IsExternal(spec)) TakePlannedCount(from, role, out);
    }
  } else if (planned.status().code() == StatusCode::kInvalidArgument) {
    out.invalid = {"InvalidSpec", planned.status().message()};
  } else if (planned.status().code() == StatusCode::kResourceExhausted) {
    out.capacity = {"InsufficientCapacity", planned.status().message()};
    KeepCommitted(from, out);
    SayWhatIsKept(from, out);
  } else {
    // A reason of its own, because a new reason is written at once (status/status.h).
    const bool is_missing = planned.status().code() == StatusCode::kNotFound;
    out.awaited = {is_missing ? "ModelNotFound" : "ModelUnknown", planned.status().message()};
    if (is_missing) {
      out.awaited.message += "; correct spec.model.source, or put the model there";
    } else if (const PodSeen* const first = FirstToReport(from, out)) {
      out.awaited.message += "; " + NotReadyWords(*first);
    }
  }
}

// The plan with the number of micro-batches that was chosen. The memory may hold fewer only. That
// is no lack of capacity, and decisions then choose no other number, since what they predict must
// run.
janus::Result<PlannedService> PlanWithMicroBatches(const PlanningSide& from, Desired& out) {
  if (out.micro_batches_of_spec != 0) return PlanKeeping(from, out, out.service);
  int32_t& chosen = out.service.spec.pipeline.micro_batches;
  const int most = RoomForMicroBatches(out);
  int room = most;
  janus::Result<PlannedService> planned = PlanWithRoomFor(
      [&](const MoEService& one) { return PlanKeeping(from, out, one); }, out.service, 1, room);
  if (planned.ok() && room < most) {
    out.micro_batches_of_spec = room;
    chosen = std::min(chosen, room);
  }
  return planned;
}

// Its worker can be asked for the model.
bool CanTell(const PodSeen& pod) {
  return pod.is_live() && pod.containers_ready && !pod.ip.empty();
}

}  // namespace

WorkersToAsk WorkersOf(const PlanningSide& from, const Desired& desired) {
  WorkersToAsk out;
  out.now = from.seen.now;
  out.attention_revision = desired.roles[0].wanted.revision;
  out.experts_revision = desired.roles[1].wanted.revision;
  for (const std::vector<PodSeen>& pods : from.side.pods) {
    std::vector<const PodSeen*> there;
    for (const PodSeen& pod : pods) {
      if (CanTell(pod)) there.push_back(&pod);
    }
    // Until it has workers of its own, a pool learns of its model from those of other pools.
    if (there.empty()) {
      const Role role = &pods == &from.side.pods[0] ? Role::kAttention : Role::kExperts;
      for (const PodSeen& pod : from.seen.other_pools) {
        if (pod.role == role && CanTell(pod)) there.push_back(&pod);
      }
    }
    std::sort(there.begin(), there.end(),
              [](const PodSeen* a, const PodSeen* b) { return a->id < b->id; });
    for (const PodSeen* pod : there) {
      // Instances of one pod are alike: the first speaks for all.
      out.workers.push_back(
          {pod->role, "pod " + pod->name, pod->revision, from.options.locate(*pod, 0).address});
    }
  }
  return out;
}

janus::Result<PlannedService> PlanKeeping(const PlanningSide& from, const Desired& desired,
                                          const MoEService& service) {
  return PlanPinned([&](const MoEService& one) { return from.models.Plan(one, desired.workers); },
                    service, HeldRoom(from.side, desired.roles[0].wanted));
}

Desired PlanSpec(const PlanningSide& from, MoEService service, const PinnedImage& pinned,
                 const Cause& invalid, const Cause& held_back) {
  Desired out;
  out.service = std::move(service);
  out.held_back = held_back;
  out.pinned = pinned;
  out.invalid = invalid;
  KeepTls(from, out);
  out.micro_batches_of_spec = out.service.spec.pipeline.micro_batches;
  for (const Role role : {Role::kAttention, Role::kExperts}) CountRole(from, role, out);
  if (!out.acts()) return out;
  TakeMicroBatches(from, out);
  // The service sleeps: nothing to plan.
  if (HasNoReplicas(out.service)) {
    for (RoleDesired& role : out.roles) role.wanted.instances = 0;
    return out;
  }
  out.workers = WorkersOf(from, out);
  TakePlan(from, PlanWithMicroBatches(from, out), out);
  const bool is_asking = out.awaited || (out.planned && !out.planned->awaited.empty());
  if (is_asking && !out.workers.workers.empty()) {
    BringForward(out.again, from.seen.now + kModelPause);
  }
  if (out.service.spec.suspend) {
    for (RoleDesired& role : out.roles) role.wanted.instances = 0;
  }
  return out;
}

bool IsServing(const Side& side, const PodSeen& pod) {
  return pod.is_live() && side.committed_pods.contains(pod.uid);
}

int ServingInstances(const Side& side, const PodSeen& pod) {
  if (side.committed() == nullptr || !IsServing(side, pod)) return 0;
  return static_cast<int>(
      std::ranges::count(side.committed()->instances, pod.uid, &TopologyInstance::pod_uid));
}

bool IsWhole(const Side& side, const Desired& desired) {
  if (desired.invalid || !desired.planned || !desired.planned->awaited.empty()) return false;
  if (side.committed() == nullptr || side.proposed() != nullptr || !side.HasTold()) return false;
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    const std::vector<PodSeen>& pods = side.pods[role == Role::kExperts];
    const RoleWanted& wanted = desired.Of(role).wanted;
    int serving = 0;
    for (const PodSeen& pod : pods) {
      if (pod.revision == wanted.revision) serving += ServingInstances(side, pod);
    }
    if (serving != wanted.instances) return false;
  }
  return true;
}

}  // namespace janus::control
