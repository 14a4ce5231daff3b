#pragma once

#include <memory>
#include <optional>

#include "controllers/scaling/decide.h"
#include "controllers/simulate/policy.h"

namespace janus::controllers {

// Policies that decide by the performance model: separate attention and experts or, with a
// predictor of the whole model, copies of it. `name` and `predictor` must outlive them.

// Decide (scaling/decide.h) in a loop. Its memory is kept between calls. `first`: what runs when
// the first request comes; by default the cheapest for the demand of the first minutes.
std::unique_ptr<SimulatedPolicy> MakeDecided(std::string_view name, const Predictor* predictor,
                                             const ScalingPolicy& scaling,
                                             std::optional<Counts> first = std::nullopt);

// The cheapest allowed service, or copies, that keep a share of the targets under a demand. If
// no counts do, `reason` and `text` say so, and the choice is the one that keeps them under the
// largest part of the demand (kAtMax). If not even a single sequence keeps them, it is the closest
// for a single sequence (kImpossibleSlo).
struct SeparatedChoice {
  Wish wish;
  Reason reason = Reason::kSatisfied;
  std::string text = {};
};
// LargestAllowed for the policy's bounds must have a value.
SeparatedChoice CheapestSeparated(const Predictor& predictor, const ScalingPolicy& scaling,
                                  const Demand& demand, double share);

// The choice that costs most over several demands.
SeparatedChoice CheapestForBusiest(const Predictor& predictor, const ScalingPolicy& scaling,
                                   std::span<const Demand> demands, double share);

// Runs one plan all the time.
std::unique_ptr<SimulatedPolicy> MakeFixed(std::string_view name, const SeparatedChoice& choice);

}  // namespace janus::controllers
