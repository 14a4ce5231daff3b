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

// The ways to exchange that are tried with each m, n and number of micro-batches.
inline constexpr std::array<std::pair<ExchangeMode, GateSide>, 4> kExchangesTried = {
    {{ExchangeMode::kDirect, GateSide::kExperts},
     {ExchangeMode::kDirect, GateSide::kAttention},
     {ExchangeMode::kTwoPhaseSingle, GateSide::kExperts},
     {ExchangeMode::kTwoPhaseParallel, GateSide::kExperts}}};

struct Plan {
  Configuration how;
  double batch = 0;  // of all pools
  double tpot_seconds = 0;
  double tokens_per_second = 0;
  double cost = 0;   // GPUs times their price, of all pools
  int gpus = 0;      // of all pools
  LayerTimes times;  // of a pool
  MemoryUse memory;
  std::optional<FirstToken> first_token;  // where the goal's traffic is known
  std::string lost_by;        // of a runner-up: what the chosen one does better, or what it misses
  bool is_ruled_out = false;  // would be better, but misses the goal's first token
};

struct PlanAnswer {
  // The chosen one first, then those that would be better but miss the goal's first token (at most
  // kMostRuledOut, the best), then runners-up of other m, n or tp.
  std::vector<Plan> plans;
  // Not separated: the whole model on one kind of GPU (whole_search.h), the best for the same goal
  // first, then the best of other kinds. Either module's device may carry it; its pool is that
  // device's, both pools where they are of one device. Empty: none keeps the goal.
  std::vector<WholePlan> wholes;
  // Whether separating pays: plans[0] is no worse than wholes[0] by IsBetter's first measure (cost
  // for a batch, tokens per second and cost without), and at equal cost no slower.
  bool is_separation_worthwhile = true;
  int64_t tried = 0;
};

inline constexpr size_t kMostRuledOut = 3;

// The cheapest plan that carries the goal's load and keeps its latencies, or without a load that of
// most throughput per cost; ties go to the lower TPOT, then the fewer GPUs. With traffic and no
// batch the sequences are those that the traffic keeps decoding. Deterministic. InvalidArgument: a
// goal that is no number. Where nothing keeps the goal: as WhyNoPlan says (why_none.h).
Result<PlanAnswer> SearchPlans(const Setting& setting, const PlanGoal& goal,
                               const PlanSpace& space);

// Whether what is left without the largest pod of experts has slots for every expert.
bool IsSurvivable(const Setting& setting, const PlanSpace& space, const Configuration& how);

// The slots of a layer with which experts are quickest: more replicas leave AEBS more to choose,
// but a kernel spends time on idle experts too. From those that hold the model (where it is to
// survive, without the largest pod) to twice as many, as far as there is room for the goal's rows.
int QuickestSlots(const Setting& setting, const PlanGoal& goal, const PlanSpace& space,
                  Configuration how);

// How a configuration steps whose pools take no more sequences than `batch`, all together. Borrows
// the setting.
Stepper StepperOf(const Setting& setting, const Configuration& how, double batch);

// The setting of a whole model: both modules on the device that carries it.
Setting OnDeviceOf(const Setting& setting, const WholePlan& plan);

// One configuration under the same goal; nullopt where it cannot hold the model or keep the TPOT.
// With batch 0 at the largest batch that keeps it. The first token is not judged.
std::optional<Plan> EvaluatePlan(const Setting& setting, const PlanGoal& goal,
                                 const PlanSpace& space, const Configuration& how);

}  // namespace janus::controllers
