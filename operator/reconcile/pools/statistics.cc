#include "operator/reconcile/pools/statistics.h"

#include <algorithm>
#include <array>

namespace janus::control {

Statistics JoinPools(std::span<const std::shared_ptr<const Statistics>> pools) {
  Statistics out;
  // Epoch numbers of a pool only grow, so their sum is another one if any changes.
  for (const auto& pool : pools) out.epoch += pool->epoch;
  std::array<int, 2> ranks{};  // by role: of all pools so far
  for (const auto& pool : pools) {
    std::array<int, 2> its{};
    for (InstanceStatistics one : pool->instances) {
      const size_t role = one.role == Role::kExperts;
      if (one.epoch == pool->epoch) {
        its[role] = std::max(its[role], one.rank.value + 1);
        one.epoch = out.epoch;
      } else {
        one.epoch = 0;
      }
      one.rank.value += ranks[role];
      one.links.clear();
      out.instances.push_back(std::move(one));
    }
    for (size_t role = 0; role < ranks.size(); ++role) ranks[role] += its[role];
    out.silent.insert(out.silent.end(), pool->silent.begin(), pool->silent.end());
    JoinGateways(pool->gateways, out.gateways);
  }
  return out;
}

}  // namespace janus::control
