#pragma once

#include <optional>

#include "common/status.h"
#include "common/topology.h"
#include "operator/api/moeservice.h"
#include "operator/reconcile/capacity/service_planner.h"

namespace janus::control {

// What a plan takes for KV cache of the memory that is free depends on how many attention instances
// there are and on the moment. So that all of a revision have the same, however they came, `held`
// is what one of them has already; nothing: none is there.
//
// The planner's plan, with the KV cache of `held`. A size that the spec itself gives goes before.
// As ServicePlanner::Plan; ResourceExhausted says, too, what is held and how to choose anew.
Result<PlannedService> PlanPinned(ServicePlanner& planner, const MoEService& service,
                                  const std::optional<SequenceRoom>& held);

}  // namespace janus::control
