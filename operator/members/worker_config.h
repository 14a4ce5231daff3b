#pragma once

#include "operator/reconcile/capacity/service_plan.h"
#include "proto/topology.pb.h"

namespace janus::control {

// The configuration of a worker beyond its flags, from the plan. `machine_threads`: step and
// compute threads of all workers on its machine; 0 if workers run on other machines too.
v1::WorkerConfig WorkerConfigOf(const ServicePlan& plan, int machine_threads,
                                bool debug_logits_hash);

}  // namespace janus::control
