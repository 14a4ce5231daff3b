#include "operator/reconcile/pods/plan_pods.h"

#include <algorithm>
#include <utility>

#include "operator/reconcile/pods/worker_pod.h"

namespace janus::control {
namespace {

bool HasId(const ServiceObserved& seen, Role role, int64_t id) {
  return std::any_of(seen.pods.begin(), seen.pods.end(),
                     [&](const PodSeen& pod) { return pod.role == role && pod.id == id; });
}

// Reserved names without a pod.
PodIds FreeIds(const ServiceObserved& seen, Role role) {
  PodIds ids = seen.remembered.ids[role == Role::kExperts];
  const int64_t last = LastPodId(seen.tree, role);
  if (ids.last != last) ids = {last + 1, last};
  // A create of unknown outcome turned out to have succeeded.
  while (HasId(seen, role, ids.next)) ++ids.next;
  ids.last = std::max(ids.last, ids.next - 1);
  return ids;
}

}  // namespace

PodPlan PlanRolePods(const ServiceObserved& seen, const Side& side, Role role,
                     const Desired& desired, bool makes, PlanBuilder& out) {
  const std::vector<PodSeen>& pods = side.pods[role == Role::kExperts];
  // While a service sleeps, no pod serves, whatever is committed; the committed epoch stays for
  // waking up.
  const std::set<std::string> none;
  const std::set<std::string>& committed = desired.wants_pods() ? side.committed_pods : none;
  PodPlan plan = PlanPods(pods, desired.Of(role).wanted, committed);
  if (!makes) plan.sizes.clear();
  const auto at = [&](WallTime time) { return At(seen.now, time - seen.wall); };
  WallTime youngest;
  bool crashes = false;
  for (const PodSeen& pod : pods) {
    if (EndedAtOnce(pod, seen.wall, committed)) out.LookAgain(at(pod.created + kFailedPause));
    if (desired.Of(role).wanted.shrinks && !pod.unplaceable.empty()) {
      const WallTime due = pod.created + kShrinkAfter;
      if (due > seen.wall) out.LookAgain(at(due));
    }
    youngest = std::max(youngest, pod.created);
    crashes |= !pod.crash_loop.empty();
  }
  if (crashes && youngest + kCrashPause > seen.wall) out.LookAgain(at(youngest + kCrashPause));
  return plan;
}

void PlanNewPods(const ServiceObserved& seen, const std::vector<PodOrder>& orders,
                 const PinnedImage& pinned, const ReconcilerOptions& options, PlanBuilder& out) {
  if (orders.empty()) return;
  std::array<PodIds, 2> ids = {FreeIds(seen, Role::kAttention), FreeIds(seen, Role::kExperts)};
  ReservePodNames reserve{seen.tree, ids};
  bool reserves = PinnedImageOf(seen.tree) != pinned;
  SetPinnedImage(reserve.next, pinned);
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    int64_t wanted = 0;
    for (const PodOrder& order : orders) wanted += order.role == role ? std::ssize(order.sizes) : 0;
    PodIds& its = reserve.ids[role == Role::kExperts];
    const int64_t lacks = wanted - (its.last - its.next + 1);
    if (lacks <= 0) continue;
    reserves = true;
    its.last = LastPodId(seen.tree, role) + lacks;
    SetLastPodId(reserve.next, role, its.last);
  }
  if (reserves && !out.Add(std::move(reserve))) return;
  std::set<Role> refused;
  for (const PodOrder& order : orders) {
    int64_t& id = ids[order.role == Role::kExperts].next;
    for (const int instances : order.sizes) {
      while (HasId(seen, order.role, id)) ++id;
      // If one is refused, the others of its role would be too.
      if (refused.contains(order.role)) break;
      Node pod = WorkerPod(*order.service, options.defaults,
                           {order.role, order.revision, id, order.image, instances, order.pool});
      if (!out.Add(MakePod{order.role, id++, std::move(pod)})) refused.insert(order.role);
    }
  }
}

std::set<std::string> MembersOf(const Side& side, bool wants_pods) {
  std::set<std::string> out;
  if (!wants_pods) return out;
  for (const std::vector<PodSeen>& pods : side.pods) {
    for (const PodSeen& pod : pods) {
      if (!side.committed_pods.contains(pod.uid)) continue;
      if (side.HasTold() || pod.has_member_label) out.insert(pod.uid);
    }
  }
  return out;
}

void PlanMarks(const Side& side, const std::set<std::string>& members, PlanBuilder& out,
               bool names_pool) {
  using Change = MarkPod::Change;
  for (const std::vector<PodSeen>& pods : side.pods) {
    for (const PodSeen& pod : pods) {
      if (pod.is_leaving) continue;
      const bool is_member = members.contains(pod.uid);
      if (is_member && !pod.has_member_gate) {
        out.Add(MarkPod{Change::kJoin, pod});
      } else if (pod.has_member_label != is_member) {
        // A pod that leaves first stops being a member for evictions and scalers.
        out.Add(MarkPod{is_member ? Change::kLabel : Change::kUnlabel, pod});
      } else if (!is_member && pod.has_member_gate) {
        out.Add(MarkPod{Change::kShut, pod});
      } else if (names_pool && !pod.has_pool_label) {
        out.Add(MarkPod{Change::kPool, pod});
      }
    }
  }
}

void PlanRemovals(const Side& side, const std::vector<PodRemoval>& removals,
                  const std::set<std::string>& members, PlanBuilder& out) {
  for (const PodRemoval& removal : removals) {
    if (members.contains(removal.uid)) continue;
    const std::vector<PodSeen> all = side.AllPods();
    const auto pod = std::find_if(all.begin(), all.end(),
                                  [&](const PodSeen& one) { return one.uid == removal.uid; });
    const bool is_truthful = pod != all.end() && (pod->is_leaving || !pod->has_member_label);
    if (is_truthful) out.Add(DeletePod{removal});
  }
}

}  // namespace janus::control
