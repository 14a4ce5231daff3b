#pragma once

#include <memory>

#include "controllers/scaling/predictor.h"
#include "controllers/simulate/policy.h"

namespace janus::controllers {

// Policies that run attention and experts apart. `name` and `predictor` outlive them.

// What runs in production: Decide (scaling/decide.h) in a loop, its memory kept between calls.
std::unique_ptr<SimulatedPolicy> MakeDecided(std::string_view name, const Predictor* predictor,
                                             const ScalingPolicy& scaling);

// One plan, all the time.
std::unique_ptr<SimulatedPolicy> MakeFixed(std::string_view name, const Wish& wish);

// The cheapest allowed service that keeps a share of the targets under a demand; where none does,
// the one that does so under the largest part of it.
Wish CheapestSeparated(const Predictor& predictor, const ScalingPolicy& scaling,
                       const Demand& demand, double share);

// The same for the busiest of several demands: the one that costs most.
Wish CheapestForBusiest(const Predictor& predictor, const ScalingPolicy& scaling,
                        std::span<const Demand> demands, double share);

}  // namespace janus::controllers
