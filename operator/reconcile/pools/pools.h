#pragma once

#include <set>

#include "operator/api/moeservice.h"
#include "operator/reconcile/pass/observed.h"

namespace janus::control {

// Pools of a service (docs/design/017-pools.md). Each pool is planned as if it were the whole
// service, from the part of the observation that belongs to it. All pure.

// The pools that have pods or an epoch. A drained pool leaves a record without an epoch, so that
// its epoch numbers are never used again.
std::set<int> PoolsThere(const ServiceObserved& seen);

// Nothing of the service belongs to another pool than the first, so the whole is that pool's part.
bool HasOnePool(const ServiceObserved& seen);

// What belongs to one pool: its topologies, its pods, and what is remembered of it. The counts of
// the status become those of one pool. All else is the service's.
ServiceObserved PartOf(const ServiceObserved& seen, int pool);

// How many pools the service should have. `service`: with the spec in force.
int PoolsWanted(const ServiceObserved& seen, const MoEService& service);

// status.desiredPools; 0: the status names none.
int DesiredPools(const Node& service);

}  // namespace janus::control
