#pragma once

#include <memory>

#include "controllers/scaling/decide.h"
#include "controllers/simulate/policy.h"

namespace janus::controllers {

// Policies that decide by the performance model: attention and experts apart, or, with a predictor
// of the whole model, copies of that. `name` and `predictor` outlive them.

// Decide (scaling/decide.h) in a loop, its memory kept between calls.
std::unique_ptr<SimulatedPolicy> MakeDecided(std::string_view name, const Predictor* predictor,
                                             const ScalingPolicy& scaling);

// The cheapest allowed service, or copies, that keep a share of the targets under a demand. Where
// none does, and `reason` and `text` say so: the one that does so under the largest part of it
// (kAtMax), or what comes nearest for a single sequence, if not even that is kept (kImpossibleSlo).
struct SeparatedChoice {
  Wish wish;
  Reason reason = Reason::kSatisfied;
  std::string text = {};
};
// LargestAllowed of the policy's bounds is to have a value.
SeparatedChoice CheapestSeparated(const Predictor& predictor, const ScalingPolicy& scaling,
                                  const Demand& demand, double share);

// The same for the busiest of several demands: the one that costs most.
SeparatedChoice CheapestForBusiest(const Predictor& predictor, const ScalingPolicy& scaling,
                                   std::span<const Demand> demands, double share);

// One plan, all the time.
std::unique_ptr<SimulatedPolicy> MakeFixed(std::string_view name, const SeparatedChoice& choice);

}  // namespace janus::controllers
