#pragma once

#include <optional>
#include <string>
#include <vector>

#include "controllers/plan/first_token.h"
#include "controllers/plan/whole.h"

namespace janus::controllers {

// The best plan for the whole model within one kind of configurations.
struct WholePlan {
  WholeConfiguration how;
  int copies = 1;      // of the model; they share the batch (MixServe's DP above EP)
  std::string device;  // by name
  int gpus = 0;        // over all copies
  double batch = 0;    // over all copies
  double tpot_seconds = 0;
  double tokens_per_second = 0;
  double cost = 0;
  double bytes = 0;                       // on one GPU
  std::optional<FirstToken> first_token;  // set if the goal's traffic is known
  std::string lost_by;                    // of a runner-up
};

// The steps of all copies together, each with its share of the load. They take at most their batch
// of sequences. Borrows the setting; its devices must be those of the plan.
Stepper StepperOf(const Setting& setting, const WholePlan& plan);

// The best way of each kind to run the whole model on at most `most_gpus` of setting.attention's
// device, best first by IsBetter; `lost_by` uses the same order. Kinds differ in attention
// (tensor-parallel or not), experts (the same) and stages (one or more). If the goal has a
// first-token target, each plan has enough copies for it. Every GPU takes at most
// max_batch_per_attention sequences. Empty: no plan keeps the goal. setting.experts must be the
// same device.
std::vector<WholePlan> SearchWholes(const Setting& setting, const PlanGoal& goal,
                                    const PlanSpace& space, int most_gpus);

// Evaluates one configuration for the goal, with as many copies as a given batch needs. nullopt: it
// cannot hold the model or keep the latency.
std::optional<WholePlan> EvaluateWhole(const Setting& setting, const PlanGoal& goal,
                                       const PlanSpace& space, const WholeConfiguration& how);

}  // namespace janus::controllers
