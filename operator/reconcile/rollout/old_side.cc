#include "operator/reconcile/rollout/old_side.h"

#include <algorithm>
#include <string>
#include <utility>

#include "operator/api/rfc3339.h"
#include "operator/reconcile/epochs/plan_epoch.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/epochs/wanted_topology.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/pods/revision.h"
#include "operator/reconcile/scaling/scaled_counts.h"
#include "operator/reconcile/spec/read_spec.h"

namespace janus::control {
namespace {

// The parts that a gateway needs to follow the topology.
Topology TopologyOf(const TopologyRecord& record) {
  Topology out;
  out.epoch = static_cast<uint64_t>(record.epoch);
  out.mode = record.mode;
  out.gate = record.gate;
  out.sum = record.sum;
  out.config_hash = record.config_hash;
  for (const TopologyInstance& one : record.instances) {
    Instance instance;
    instance.role = one.role;
    instance.pod_uid = one.pod_uid;
    instance.index = one.index;
    instance.incarnation = one.incarnation;
    instance.node = one.node;
    instance.domain = one.domain.empty() ? one.node : one.domain;
    instance.address = one.address;
    (one.role == Role::kAttention ? out.attention : out.experts).push_back(std::move(instance));
  }
  return out;
}

PlanningSide OldOf(const ServiceObserved& seen, const ReconcilerOptions& options,
                   const Rollout& rollout) {
  return {seen, options, rollout.sides, *rollout.sides.old, *seen.old_models};
}

// True if all gateways are new, and old ones are gone: each can talk to the new side.
bool HaveGatewaysFollowed(const ServiceObserved& seen, const PlanBuilder& out) {
  if (!out.refused().empty()) return false;
  const ChildSeen* const there = seen.Child(kDeployments, GatewayName(seen.key().name));
  if (there == nullptr) return false;
  const auto is = [&](FieldPath path) { return IntegerAt(there->object, path).value_or(0); };
  if (is({"status", "observedGeneration"}) < is({"metadata", "generation"})) return false;
  for (const std::string_view count : {"replicas", "updatedReplicas", "availableReplicas"}) {
    if (is({"status", count}) != is({"spec", "replicas"})) return false;
  }
  return std::none_of(seen.gateway_pods.begin(), seen.gateway_pods.end(),
                      [](const GatewayPodSeen& pod) { return pod.is_leaving; });
}

int CountOf(const TopologyRecord& committed, Role role) {
  return static_cast<int>(
      std::count_if(committed.instances.begin(), committed.instances.end(),
                    [&](const TopologyInstance& one) { return one.role == role; }));
}

// Ends a side: its members announce the new topology, finish their answers and leave; then their
// pods are deleted.
std::vector<PodRemoval> PlanEndOfOldSide(const ServiceObserved& seen, const Rollout& rollout,
                                         PlanBuilder& out) {
  const Side& old = *rollout.sides.old;
  const Desired& front = rollout.desired;
  if (!old.has_fence()) return {};
  const TopologyRecord& ended = *old.ended();
  if (old.epochs().released != ended.epoch) {
    const MemberOrder order = ReleaseOrder(seen, old, ended.epoch, AliveOf(ended, seen.alive));
    const MonotonicTime deadline = EndOfAnswers(seen, old, front, order.members.size());
    std::optional<EpochEnd::Beside> beside;
    if (seen.now < deadline) {
      const TopologyRecord* const successor = rollout.sides.front.committed();
      if (!front.planned || successor == nullptr) {
        out.LookAgain(deadline);
        return {};
      }
      beside = EpochEnd::Beside{{TopologyOf(*successor), front.planned->text_digest},
                                HaveGatewaysFollowed(seen, out)};
    }
    out.Add(ReleaseMembers{old.topology->name(), order, beside, deadline});
    return {};
  }
  std::vector<PodRemoval> removals;
  for (const PodSeen& pod : old.AllPods()) {
    if (pod.is_leaving) continue;
    removals.push_back({pod.name, pod.uid, "another model replaces this pod's model"});
  }
  return removals;
}

}  // namespace

MemberOrder ReleaseOrder(const ServiceObserved& seen, const Side& side, int64_t epoch,
                         std::vector<TopologyInstance> members) {
  MemberOrder out{seen.key(), seen.uid(), side.topology->topology->spec.fence, epoch,
                  std::move(members)};
  out.pool = side.topology->pool();
  return out;
}

MonotonicTime EndOfDrain(const ServiceObserved& seen, const Side& side, int drain_seconds) {
  const auto since = ParseTime(side.topology->topology->spec.ended_at);
  const Seconds gone = since.ok() ? Seconds(seen.wall - *since) : Seconds(0);
  return At(seen.now, std::max(Seconds(drain_seconds) - gone, Seconds(0)));
}

MonotonicTime EndOfAnswers(const ServiceObserved& seen, const Side& side, const Desired& desired,
                           size_t left) {
  if (left < side.ended()->instances.size() || !desired.wants_pods()) return seen.now;
  return EndOfDrain(seen, side, desired.service.spec.rollout.drain_seconds);
}

OldSide PlanOldSide(const ServiceObserved& seen, const ReconcilerOptions& options,
                    const Rollout& rollout, PlanBuilder& out) {
  const Side& side = *rollout.sides.old;
  const Desired& front = rollout.desired;
  const TopologyRecord* const committed = side.committed();
  const bool is_decided = rollout.sides.front.committed() != nullptr;
  OldSide old;
  Desired& desired = old.desired;
  desired.service = front.service;
  desired.pinned = front.pinned;
  const std::optional<MoEService> last = LastServiceOf(seen.tree, side.topology);
  if (last) desired.service.spec = last->spec;
  desired.service.spec.suspend = front.service.spec.suspend;
  desired.service.spec.paused = front.service.spec.paused;
  // What decisions have chosen stays, as the counts do.
  int32_t& micro_batches = desired.service.spec.pipeline.micro_batches;
  desired.micro_batches_of_spec = micro_batches;
  if (committed != nullptr && micro_batches == 0) micro_batches = committed->micro_batches;
  int room = RoomForMicroBatches(desired);
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    RoleWanted& wanted = desired.Of(role).wanted;
    wanted.now = seen.wall;
    wanted.per_pod = SpecOf(desired.service, role).instances_per_pod;
    wanted.rolls = false;
    wanted.revision =
        RevisionOf(desired.service, role, ImageOfPods(desired.service, desired.pinned, options));
    for (const PodSeen& pod : side.pods[role == Role::kExperts]) {
      if (IsServing(side, pod)) wanted.revision = pod.revision;
    }
    RoleSpec& spec = SpecOf(desired.service, role);
    if (committed != nullptr && !spec.replicas) spec.replicas = CountOf(*committed, role);
    spec.scaling.reset();
    wanted.instances = front.wants_pods() ? spec.replicas.value_or(0) : 0;
  }
  if (!front.wants_pods()) {
    desired.ends = "the service sleeps";
  } else if (IsWhole(rollout.sides.front, front)) {
    desired.ends = "another model serves beside it";
  }
  if (is_decided || side.ended() != nullptr) return old;
  const PlanningSide from = OldOf(seen, options, rollout);
  if (last && committed != nullptr && front.wants_pods()) {
    desired.workers = WorkersOf(from, desired);
    janus::Result<PlannedService> planned =
        PlanWithRoomFor([&](const MoEService& one) { return PlanKeeping(from, desired, one); },
                        desired.service, std::max(micro_batches, 1), room);
    if (planned.ok()) desired.planned = *std::move(planned);
  }
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    old.pods[role == Role::kExperts] =
        PlanRolePods(seen, side, role, desired, desired.ends.empty(), out);
  }
  return old;
}

bool PlanOldActions(const ServiceObserved& seen, const ReconcilerOptions& options,
                    const Rollout& rollout, const OldSide& old, const Certified& certified,
                    PlanBuilder& out) {
  const Side& side = *rollout.sides.old;
  if (!old.desired.workers.attention_revision.empty()) {
    out.Add(AskWorkers{true, old.desired.workers});
  }
  bool writes = false;
  if (certified.can_call) {
    const WantedTopology wanted =
        TopologyWanted(OldOf(seen, options, rollout), old.desired, old.pods);
    out.LookAgain(wanted.again);
    EpochWish wish;
    wish.wanted = wanted.proposal;
    wish.ends = old.desired.ends;
    wish.above = rollout.sides.front.last_epoch();
    writes = PlanEpoch(seen, old.desired.service, side.topology, wish, out);
    if (!writes) PlanMemberStatus(seen, side, out);
  }
  std::vector<PodRemoval> removals;
  if (side.ended() != nullptr) {
    removals = PlanEndOfOldSide(seen, rollout, out);
  } else {
    for (const PodPlan& plan : old.pods) {
      removals.insert(removals.end(), plan.remove.begin(), plan.remove.end());
    }
  }
  const std::set<std::string> members = MembersOf(side, old.desired.wants_pods());
  PlanMarks(side, members, out);
  PlanRemovals(side, removals, members, out);
  if (side.ended() != nullptr && side.is_empty()) {
    PlanDrop(seen, old.desired.service, *side.topology, out);
  }
  return writes;
}

bool ServesCommitted(const Side& side) {
  if (side.HasTold()) return true;
  for (const PodSeen& pod : side.AllPods()) {
    if (IsServing(side, pod) && !pod.has_member_label) return false;
  }
  return !side.epochs().under_way;
}

bool OldSideServes(const ServiceObserved& seen, const Side& old) {
  const TopologyRecord* const committed = old.committed();
  return committed != nullptr &&
         AliveOf(*committed, seen.alive).size() == committed->instances.size() &&
         ServesCommitted(old) && old.epochs().WhyLost(committed->epoch).empty();
}

Cause ReplacingCause(const Rollout& rollout) {
  const Side& old = *rollout.sides.old;
  if (old.ended() == nullptr) {
    return {"Replacing", "new pods start beside the old ones, which leave once the new ones serve"};
  }
  return {"Replacing", "the new model serves; " + std::to_string(old.AllPods().size()) +
                           " old pods are left; their answers have up to " +
                           std::to_string(rollout.desired.service.spec.rollout.drain_seconds) +
                           " s to finish"};
}

bool MayFrontPropose(const Side& old) {
  if (old.committed() != nullptr && old.proposed() != nullptr) return false;
  return !old.is_readable() || old.has_fence();
}

void PlanDrop(const ServiceObserved& seen, const MoEService& service, const TopologySeen& topology,
              PlanBuilder& out) {
  if (FindAt(topology.record, {"spec", "proposed"}) != nullptr) {
    EpochWish wish;
    wish.ends = "the spec has gone back to the model that serves";
    PlanEpoch(seen, service, &topology, wish, out);
    return;
  }
  out.Add(DeleteTopology{KeyOf(topology.record), std::string(UidOf(topology.record))});
}

}  // namespace janus::control
