#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "controllers/plan/performance.h"

namespace janus::controllers {

// What is asked: a latency to keep, and either a load to carry at least cost or, with batch 0, the
// most throughput per cost.
struct PlanGoal {
  double tpot_seconds = 0.1;
  double batch = 0;  // sequences decoding at once, all attention instances
};

// What may be tried. No cap on the ratio of m to n.
struct PlanSpace {
  int max_attention_gpus = 128;
  int max_expert_gpus = 256;
  int max_micro_batches = 4;
  int max_tensor_parallel = 8;
  int max_batch_per_attention = 1024;  // sequences
  bool is_survivable = false;          // n * C >= E without the largest pod
  int instances_per_pod = 1;           // of expert instances, for the line above
};

struct Plan {
  Configuration how;
  double batch = 0;
  double tpot_seconds = 0;
  double tokens_per_second = 0;
  double cost = 0;  // GPUs times their price
  int gpus = 0;
  LayerTimes times;
  MemoryUse memory;
  std::string lost_by;  // of a runner-up: what the chosen one does better
};

struct Monolith {
  int gpus = 0;
  double batch = 0;
  double tpot_seconds = 0;
  double tokens_per_second = 0;
  double cost = 0;
};

struct PlanAnswer {
  std::vector<Plan> plans;  // the chosen one first, then runners-up of other m, n or tp
  // The whole model on one set of GPUs, at its best for the same goal; none: it never meets it.
  std::optional<Monolith> monolith;
  // Whether separating pays: more tokens per second and cost than the monolith.
  bool is_separation_worthwhile = true;
  int64_t tried = 0;
};

// The cheapest plan that keeps the goal, or with batch 0 that of most throughput per cost; ties go
// to the lower TPOT, then the fewer GPUs. Deterministic. InvalidArgument: a goal that is no number,
// a model larger than the pool (with the bytes). FailedPrecondition: nothing keeps the latency;
// names the fastest plan and its TPOT.
Result<PlanAnswer> SearchPlans(const Setting& setting, const PlanGoal& goal,
                               const PlanSpace& space);

// One configuration under the same goal; nullopt where it cannot hold the model or keep the
// latency. With batch 0 at the largest batch that keeps it.
std::optional<Plan> EvaluatePlan(const Setting& setting, const PlanGoal& goal,
                                 const PlanSpace& space, const Configuration& how);

}  // namespace janus::controllers
