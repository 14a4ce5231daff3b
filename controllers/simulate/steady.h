#pragma once

#include <span>

#include "controllers/scaling/predictor.h"
#include "controllers/simulate/unit.h"

namespace janus::controllers {

// The demand of some requests that came in within `seconds`; its context is the mean keys of a
// running sequence, in which longer outputs count for longer.
Demand DemandOf(std::span<const SimulatedRequest> requests, double seconds);

// The same of every `window_s` with a request in it, by when they arrived.
std::vector<Demand> DemandByWindow(std::span<const SimulatedRequest> requests, double window_s);

// Mean keys that a prompt position of the requests attends to.
double MeanPromptKeys(std::span<const SimulatedRequest> requests);

// The step time that a unit settles at under a steady demand; infinite where it never does: prompts
// come faster than they are computed, or sequences find no room.
double SteadyStep(const UnitShape& shape, const Demand& demand);

// Requests per second of that mix at which the step time settles at most at `step_seconds`.
double CapacityOf(const UnitShape& shape, const Demand& mix, double step_seconds);

}  // namespace janus::controllers
