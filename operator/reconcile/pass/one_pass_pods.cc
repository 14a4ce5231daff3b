#include <algorithm>
#include <array>

#include "operator/api/parse.h"
#include "operator/reconcile/children/child_writer.h"
#include "operator/reconcile/children/scalers.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/pass/one_pass.h"
#include "operator/reconcile/pods/pod_writer.h"

namespace janus::control {

void Reconciler::OnePass::PlanRole(RolePass& role) {
  if (is_frozen_) return;
  if (ended_ && has_old_pods_ && wants_pods()) return PlanRecreation(role);
  // Nobody serves while a service sleeps, whatever is committed: it is what it wakes up from.
  const std::set<std::string> none;
  role.plan = PlanPods(role.pods, role.wanted, wants_pods() ? committed_ : none);
  // Another one of the revision would come only to wait until the old ones have gone.
  if (!ends_.empty()) role.plan.create = 0;
  for (const PodSeen& pod : role.pods) {
    if (!EndedAtOnce(pod, wall_, wants_pods() ? committed_ : none)) continue;
    BringForward(again_, At(now_, pod.created + kFailedPause - wall_));
  }
  const bool crashes = std::any_of(role.pods.begin(), role.pods.end(),
                                   [](const PodSeen& pod) { return !pod.crash_loop.empty(); });
  if (!crashes) return;
  WallTime youngest;
  for (const PodSeen& pod : role.pods) youngest = std::max(youngest, pod.created);
  if (youngest + kCrashPause > wall_)
    BringForward(again_, At(now_, youngest + kCrashPause - wall_));
}

void Reconciler::OnePass::WriteAllChildren() {
  CommittedPods committed;
  if (wants_pods() && topology_ && topology_->spec.committed) {
    for (const TopologyInstance& one : topology_->spec.committed->instances) {
      ++(one.role == Role::kAttention ? committed.attention : committed.experts);
    }
  }
  if (wants_pods() && old_record_) {
    Parsed<MoETopology> old = ParseMoETopology(*old_record_);
    TakeEnded(old.object);
    if (old.object.spec.committed) {
      for (const TopologyInstance& one : old.object.spec.committed->instances) {
        ++(one.role == Role::kAttention ? committed.attention : committed.experts);
      }
    }
  }
  PassContext context = Context();
  std::vector<Child> children = ChildrenOf(GatewaysService(), owner_.options_.defaults, committed);
  for (const RolePass& role : roles_) {
    if (!IsExternal(SpecOf(service_, role.role))) continue;
    children.push_back(ScalerOf(service_, role.role, role.external_count));
  }
  WriteChildren(children, memory_.mended, context);
}

// Names that were reserved and came to be of no pod, as their creation was refused, are tried
// again: each reservation is a write of the service, whose news is the next pass.
void Reconciler::OnePass::MakeAllPods(const std::array<bool, 2>& may_start) {
  std::vector<PodOrder> orders, lacking;
  for (RolePass& role : roles_) {
    const bool is_experts = role.role == Role::kExperts;
    if (role.plan.create == 0) continue;
    role.awaits_certificate = !may_start[is_experts];
    if (role.awaits_certificate) continue;
    orders.push_back({role.role, role.plan.create, role.wanted.revision, ImageOfPods()});
    Memory::PodIds& ids = memory_.ids[is_experts];
    const int64_t last = LastPodId(tree_, role.role);
    if (ids.last != last) ids = {last + 1, last};
    // One whose creation was in doubt has turned out to be there.
    const auto is_there = [&](const PodSeen& pod) {
      return pod.role == role.role && pod.id == ids.next;
    };
    while (std::any_of(role.pods.begin(), role.pods.end(), is_there) ||
           std::any_of(old_pods_.begin(), old_pods_.end(), is_there)) {
      ++ids.next;
    }
    ids.last = std::max(ids.last, ids.next - 1);
    const int lacks = role.plan.create - static_cast<int>(ids.last - ids.next + 1);
    if (lacks <= 0) continue;
    lacking.push_back(orders.back());
    lacking.back().count = lacks;
  }
  if (orders.empty()) return;
  PassContext context = Context();
  const bool is_noted = lacking.empty() && PinnedImageOf(tree_) == pinned_;
  if (!is_noted && !ReserveIds(lacking, pinned_, tree_, context)) return;
  for (const PodOrder& order : orders) {
    if (context.is_stopped()) return;
    Memory::PodIds& ids = memory_.ids[order.role == Role::kExperts];
    ids.last = LastPodId(tree_, order.role);
    ids.next = MakePods(order, ids.next, owner_.options_.defaults, context);
  }
}

void Reconciler::OnePass::MarkAndRemove() {
  const bool knows = topology_ && topology_->spec.committed;
  // Who is committed is a member once it has been told, and stays one until another epoch is.
  const bool is_told = knows && line_->epochs.HasTold(topology_->spec.committed->epoch);
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

}  // namespace janus::control
