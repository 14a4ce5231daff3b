#pragma once

#include "operator/reconcile/capacity/service_plan.h"
#include "proto/topology.pb.h"

namespace janus::control {

// What a worker needs beyond its flags, as the plan has it. `machine_threads`: step and compute
// threads of all workers of its machine, 0 where other machines take part.
v1::WorkerConfig WorkerConfigOf(const ServicePlan& plan, int machine_threads,
                                bool debug_logits_hash);

}  // namespace janus::control
