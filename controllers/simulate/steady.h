#pragma once

#include <span>

#include "controllers/scaling/predictor.h"
#include "controllers/simulate/unit.h"

namespace janus::controllers {

// The demand of requests that arrived within `seconds`. Its context is the mean keys of a running
// sequence, in which longer outputs weigh more.
Demand DemandOf(std::span<const SimulatedRequest> requests, double seconds);

// The same for every `window_s` that has a request, by arrival.
std::vector<Demand> DemandByWindow(std::span<const SimulatedRequest> requests, double window_s);

// Mean keys of a prompt position of the requests.
double MeanPromptKeys(std::span<const SimulatedRequest> requests);

// The step time that a unit reaches under a steady demand. Infinite: prompts arrive faster than
// they are computed, or sequences find no room.
double SteadyStep(const UnitShape& shape, const Demand& demand);

// The requests per second of this mix for which the step time is at most `step_seconds`.
double CapacityOf(const UnitShape& shape, const Demand& mix, double step_seconds);

}  // namespace janus::controllers
