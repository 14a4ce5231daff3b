#include "operator/reconcile/capacity/pinned_plan.h"

#include <utility>

#include "operator/api/quantity.h"

namespace janus::control {

Result<PlannedService> PlanPinned(PlanModel plan_model, const MoEService& service,
                                  const std::optional<SequenceRoom>& held) {
  if (!held || service.spec.roles.attention.kv_cache.size) return plan_model(service);
  MoEService sized = service;
  sized.spec.roles.attention.kv_cache.size = UnitsOf(held->kv_bytes);
  Result<PlannedService> planned = plan_model(sized);
  if (planned.ok()) {
    planned->plan.swap_bytes = held->swap_bytes;
    return planned;
  }
  if (planned.status().code() != StatusCode::kResourceExhausted) return planned;
  return ResourceExhausted(
      planned.status().message() + "; each attention instance that serves has " +
      FormatBytes(held->kv_bytes) +
      " of KV cache, chosen when it started; new instances get the same; to choose again, "
      "set kvCache.size, or suspend the service and resume it");
}

}  // namespace janus::control
