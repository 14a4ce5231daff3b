#pragma once

#include <optional>

#include "common/function_ref.h"
#include "common/status.h"
#include "common/topology.h"
#include "operator/api/moeservice.h"
#include "operator/reconcile/capacity/service_planner.h"

namespace janus::control {

// How a service is planned, by what is known of its model.
using PlanModel = FunctionRef<Result<PlannedService>(const MoEService&)>;

// What a plan takes for KV cache of the memory that is free depends on the number of attention
// instances and on the moment. All instances of a revision shall have the same, so `held` is what
// one of them has already; nothing: there is none.
//
// `plan_model`'s plan with the KV cache of `held`. A size that the spec gives goes first. Errors
// are those of `plan_model`; ResourceExhausted also says what is held and how to choose anew. Pure.
Result<PlannedService> PlanPinned(PlanModel plan_model, const MoEService& service,
                                  const std::optional<SequenceRoom>& held);

}  // namespace janus::control
