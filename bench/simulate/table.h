#pragma once

#include <nlohmann/json.hpp>

#include "bench/simulate/extent.h"

namespace janus::bench {

// Prints a report of `janusctl simulate --json`: a line per policy, with the most GPUs that it paid
// for and the fewest that it asked for.
void PrintPolicies(const nlohmann::json& report);

// Prints whether the range of the demand is large enough to compare ours with copies of the whole
// model. Prints nothing if ours was not run.
void PrintExtent(const nlohmann::json& report, double scale, const Extent& extent);

}  // namespace janus::bench
