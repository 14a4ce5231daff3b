#pragma once

#include <cstdint>
#include <optional>

#include "common/status.h"
#include "operator/api/moeservice.h"
#include "operator/reconcile/service_planner.h"

namespace janus::control {

// What a plan takes of the memory that is free, for each attention instance. It depends on how many
// there are and on the moment; but a worker keeps for life what its first epoch brought.
struct WorkerMemory {
  int64_t kv_bytes = 0;
  int64_t swap_bytes = 0;
};

// The planner's plan, with the memory that workers hold already, if any do: however many there are
// now, what they are told is the same. A size that the spec itself gives goes before. As
// ServicePlanner::Plan; ResourceExhausted says, too, what is held and how to choose anew. Where
// what is held is too little for one sequence of the length that is wanted now, the plan is as
// without it, and workers refuse it by name.
Result<PlannedService> PlanPinned(ServicePlanner& planner, const MoEService& service,
                                  const std::optional<WorkerMemory>& held);

}  // namespace janus::control
