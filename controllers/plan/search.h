#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "controllers/plan/first_token.h"
#include "controllers/plan/performance.h"
#include "controllers/plan/whole_search.h"

namespace janus::controllers {

// The exchanges that are tried with each m, n and number of micro-batches.
inline constexpr std::array<std::pair<ExchangeMode, GateSide>, 6> kExchangesTried = {
    {{ExchangeMode::kDirect, GateSide::kExperts},
     {ExchangeMode::kDirect, GateSide::kAttention},
     {ExchangeMode::kTwoPhaseSingle, GateSide::kExperts},
     {ExchangeMode::kTwoPhaseSingle, GateSide::kAttention},
     {ExchangeMode::kTwoPhaseParallel, GateSide::kExperts},
     {ExchangeMode::kTwoPhaseParallel, GateSide::kAttention}}};

struct Plan {
  Configuration how;
  double batch = 0;  // over all pools
  double tpot_seconds = 0;
  double tokens_per_second = 0;
  double cost = 0;   // GPUs times their price, over all pools
  int gpus = 0;      // over all pools
  LayerTimes times;  // of one pool
  MemoryUse memory;
  std::optional<FirstToken> first_token;  // set if the goal's traffic is known
  std::string lost_by;        // of a runner-up: what the chosen one does better, or what it misses
  bool is_ruled_out = false;  // better than the chosen one, but misses the goal's first token
};

struct PlanAnswer {
  // First the chosen plan; then at most kMostRuledOut plans that would be better but miss the
  // goal's first token; then runners-up with other m, n or tp.
  std::vector<Plan> plans;
  // Plans without separation: the whole model on one kind of GPU (whole_search.h). The best for the
  // same goal comes first, then the best of other kinds. Either module's device may carry it. Its
  // GPU limit is that device's, or the sum of both if they are the same device. Empty: no such plan
  // keeps the goal.
  std::vector<WholePlan> wholes;
  // Whether separation pays: plans[0] is no worse than wholes[0] by IsBetter's first measure (cost
  // for a batch; otherwise tokens per second and cost), and not slower at equal cost.
  bool is_separation_worthwhile = true;
  int64_t tried = 0;
};

inline constexpr size_t kMostRuledOut = 3;

// The cheapest plan that carries the goal's load and keeps its latencies. Without a load: the plan
// with most throughput per cost. Ties go to the lower TPOT, then to fewer GPUs. With traffic and no
// batch, the sequences are those that the traffic keeps decoding. Deterministic. InvalidArgument:
// the goal has an invalid number. If no plan keeps the goal: the error of WhyNoPlan (why_none.h).
Result<PlanAnswer> SearchPlans(const Setting& setting, const PlanGoal& goal,
                               const PlanSpace& space);

// Whether every expert has a slot after the largest pod of experts is lost.
bool IsSurvivable(const Setting& setting, const PlanSpace& space, const Configuration& how);

// The number of slots per layer with which experts are fastest. More replicas give AEBS more
// choice, but a kernel also spends time on idle experts. The search goes from the slots that hold
// the model (without the largest pod if it must survive) to twice as many, as far as there is room
// beside the goal's rows.
int QuickestSlots(const Setting& setting, const PlanGoal& goal, const PlanSpace& space,
                  Configuration how);

// The steps of a configuration. Its pools together take at most `batch` sequences. Borrows the
// setting.
Stepper StepperOf(const Setting& setting, const Configuration& how, double batch);

// The setting for a whole model: both modules on the device that carries it.
Setting OnDeviceOf(const Setting& setting, const WholePlan& plan);

// Evaluates one configuration for the same goal. nullopt: it cannot hold the model or keep the
// TPOT. With batch 0 it uses the largest batch that keeps the TPOT. Does not judge the first token.
std::optional<Plan> EvaluatePlan(const Setting& setting, const PlanGoal& goal,
                                 const PlanSpace& space, const Configuration& how);

}  // namespace janus::controllers
