#pragma once

#include <optional>

#include "common/function_ref.h"
#include "common/status.h"
#include "common/topology.h"
#include "operator/api/moeservice.h"
#include "operator/reconcile/capacity/service_planner.h"

namespace janus::control {

// Plans a service from what is known of its model.
using PlanModel = FunctionRef<Result<PlannedService>(const MoEService&)>;

// The KV cache size of a plan depends on free memory and the number of attention instances, so it
// may differ from one plan to the next. All instances of a revision must have the same size: `held`
// is the size that one of them already has; nothing: there is no instance yet.
//
// Returns the plan of `plan_model` with the KV cache of `held`. A size in the spec has precedence.
// Errors are those of `plan_model`; ResourceExhausted also says what is held and how to choose a
// new size. Pure.
Result<PlannedService> PlanPinned(PlanModel plan_model, const MoEService& service,
                                  const std::optional<SequenceRoom>& held);

}  // namespace janus::control
