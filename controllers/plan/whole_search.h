#pragma once

#include <optional>
#include <string>
#include <vector>

#include "controllers/plan/first_token.h"
#include "controllers/plan/whole.h"

namespace janus::controllers {

// The whole model at its best in one corner of the grammar.
struct WholePlan {
  WholeConfiguration how;
  int copies = 1;      // of the whole, each with its share of the batch (MixServe's DP above EP)
  std::string device;  // by name
  int gpus = 0;        // of all copies
  double batch = 0;    // of all copies
  double tpot_seconds = 0;
  double tokens_per_second = 0;
  double cost = 0;
  double bytes = 0;                       // of a GPU
  std::optional<FirstToken> first_token;  // where the goal's traffic is known
  std::string lost_by;                    // of a runner-up
};

// How all copies step together, each with its share; they take no more sequences than their batch.
// Borrows the setting, whose devices are those of the plan.
Stepper StepperOf(const Setting& setting, const WholePlan& plan);

// The best way of each kind (attention tensor-parallel or not, experts likewise, one stage or more)
// to run the whole model on at most `most_gpus` of setting.attention's device, best first by
// IsBetter, which is also what `lost_by` says. Where the goal asks for a first token, with as many
// copies as it takes. Every GPU takes at most max_batch_per_attention
// sequences. Empty: none keeps the goal. setting.experts is to be the same device.
std::vector<WholePlan> SearchWholes(const Setting& setting, const PlanGoal& goal,
                                    const PlanSpace& space, int most_gpus);

// One configuration under the goal, with as many copies as a given batch needs of it; nullopt
// where it cannot hold the model or keep the latency.
std::optional<WholePlan> EvaluateWhole(const Setting& setting, const PlanGoal& goal,
                                       const PlanSpace& space, const WholeConfiguration& how);

}  // namespace janus::controllers
