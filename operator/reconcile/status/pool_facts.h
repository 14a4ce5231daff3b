#pragma once

#include "operator/reconcile/status/status.h"

namespace janus::control {

// The pods of a pool that are still there.
int PodsOf(const StatusFacts& pool);

// Adds what was collected of one more pool to the service's facts: counts add up, and a trouble is
// kept where the service has none yet. `drains`: the pool is no longer wanted. Measured values are
// not added; SeeService has those of all pools. Pure.
void AddPool(const StatusFacts& pool, int number, bool drains, StatusFacts& service);

}  // namespace janus::control
