#include "operator/reconcile/pinned_plan.h"

#include <utility>

#include "operator/api/quantity.h"

namespace janus::control {

Result<PlannedService> PlanPinned(ServicePlanner& planner, const MoEService& service,
                                  const std::optional<WorkerMemory>& held) {
  if (!held || service.spec.roles.attention.kv_cache.size) return planner.Plan(service);
  MoEService sized = service;
  const std::string text = std::to_string(held->kv_bytes);
  JANUS_ASSIGN_OR_RETURN(sized.spec.roles.attention.kv_cache.size, ParseQuantity(text));
  Result<PlannedService> planned = planner.Plan(sized);
  if (planned.ok()) {
    ServicePlan& plan = planned->plan;
    plan.kv_asked_bytes = 0;  // nobody asked for it
    plan.swap_bytes = held->swap_bytes;
    return planned;
  }
  switch (planned.status().code()) {
    case StatusCode::kInvalidArgument:
      return planner.Plan(service);
    case StatusCode::kResourceExhausted:
      return ResourceExhausted(
          planned.status().message() + "; each attention instance that serves has " +
          FormatBytes(held->kv_bytes) +
          " of KV cache, chosen when it started, and another one is given the same: to choose "
          "anew, suspend the service and resume it");
    default:
      return planned;
  }
}

}  // namespace janus::control
