#include "operator/reconcile/pools/pools.h"

#include <algorithm>
#include <utility>

#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/scaling/decision_tree.h"
#include "operator/reconcile/scaling/tick.h"

namespace janus::control {
namespace {

// Whether a pass has anything to do for the record.
bool HasEpoch(const TopologySeen& one) {
  if (!one.topology) return true;  // unreadable: its pool's plan says so
  return one.topology->spec.committed.has_value() || one.topology->spec.proposed.has_value();
}

void DivideCounts(Node& service, int pools) {
  const Node* const roles = FindAt(service, {"status", "roles"});
  if (roles == nullptr) return;
  Node list = *roles;
  for (Node& role : list.items) {
    if (const auto desired = IntegerAt(role, {"desiredInstances"})) {
      SetAt(role, {"desiredInstances"}, Node::Integer(*desired / pools));
    }
  }
  SetAt(service, {"status", "roles"}, std::move(list));
}

}  // namespace

std::set<int> PoolsThere(const ServiceObserved& seen) {
  std::set<int> out;
  for (const PodSeen& pod : seen.pods) out.insert(pod.pool);
  for (const TopologySeen& one : seen.topologies) {
    if (HasEpoch(one)) out.insert(one.pool());
  }
  return out;
}

bool HasOnePool(const ServiceObserved& seen) {
  const auto is_other = [](int pool) { return pool != 1; };
  return DesiredPools(seen.tree) <= 1 &&
         std::ranges::none_of(seen.pods, is_other, &PodSeen::pool) &&
         std::ranges::none_of(seen.topologies, is_other, &TopologySeen::pool);
}

ServiceObserved PartOf(const ServiceObserved& seen, int pool) {
  ServiceObserved out = seen;
  out.pool = pool;
  std::erase_if(out.topologies, [&](const TopologySeen& one) { return one.pool() != pool; });
  const auto others = std::stable_partition(out.pods.begin(), out.pods.end(),
                                            [&](const PodSeen& pod) { return pod.pool == pool; });
  out.other_pools.assign(std::make_move_iterator(others), std::make_move_iterator(out.pods.end()));
  out.pods.erase(others, out.pods.end());
  if (const int pools = DesiredPools(seen.tree); pools > 1) DivideCounts(out.tree, pools);
  if (pool != 1) {
    const auto its = seen.remembered.pools.find(pool);
    const PoolRemembered remembered =
        its == seen.remembered.pools.end() ? PoolRemembered() : its->second;
    out.remembered.placement = remembered.placement;
    out.remembered.asleep_since = remembered.asleep_since;
  }
  return out;
}

int PoolsWanted(const ServiceObserved& seen, const MoEService& service) {
  const MoEServiceSpec& spec = service.spec;
  const int before = DesiredPools(seen.tree);
  if (spec.paused && before > 0) return before;
  // A service that had no pools named is its own first pool.
  const bool had_counts = DesiredInstances(seen.tree, Role::kAttention).value_or(0) > 0 ||
                          DesiredInstances(seen.tree, Role::kExperts).value_or(0) > 0;
  if (spec.paused && had_counts) return 1;
  const int least = LeastPools(spec);
  if (!IsScaled(spec) || MostPools(spec) == least) return least;
  int wanted = before;
  if (const auto& counts = seen.remembered.scaling.wanted) {
    wanted = counts->pools;
  } else if (wanted == 0) {
    if (const auto last = LastDecisionOf(seen.tree)) wanted = last->to.pools;
  }
  return std::clamp(wanted, least, MostPools(spec));
}

int DesiredPools(const Node& service) {
  const auto pools = IntegerAt(service, {"status", "desiredPools"});
  return static_cast<int>(pools.value_or(0));
}

}  // namespace janus::control
