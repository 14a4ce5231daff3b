#include "operator/reconcile/status/pool_facts.h"

#include <string>

namespace janus::control {
namespace {

void Take(const std::string& more, std::string& to) {
  if (to.empty()) to = more;
}
void Take(const Cause& more, Cause& to) {
  if (!to) to = more;
}

void AddRole(const RoleStatus& pool, bool drains, RoleStatus& to) {
  to.pods += pool.pods;
  to.draining += pool.draining;
  to.gpus += pool.gpus;
  if (drains) return;
  to.desired += pool.desired;
  to.ready += pool.ready;
  to.ready_instances += pool.ready_instances;
  to.updated += pool.updated;
  to.committed += pool.committed;
  to.committed_pods += pool.committed_pods;
  to.standby += pool.standby;
  to.idle += pool.idle;
  to.current += pool.current;
  to.outdated += pool.outdated;
  Take(pool.crashing, to.crashing);
  Take(pool.unplaceable, to.unplaceable);
  Take(pool.not_starting, to.not_starting);
  Take(pool.awaited, to.awaited);
  Take(pool.no_room, to.no_room);
  Take(pool.limit, to.limit);
}

}  // namespace

int PodsOf(const StatusFacts& pool) {
  return pool.attention.pods + pool.attention.draining + pool.experts.pods + pool.experts.draining;
}

void AddPool(const StatusFacts& pool, int number, bool drains, StatusFacts& service) {
  AddRole(pool.attention, drains, service.attention);
  AddRole(pool.experts, drains, service.experts);
  service.pools.push_back({number, drains, PodsOf(pool), pool.topology, pool.awaited});
  if (drains) return;
  Take(pool.capacity, service.capacity);
  Take(pool.held_back, service.held_back);
  Take(pool.invalid, service.invalid);
}

}  // namespace janus::control
