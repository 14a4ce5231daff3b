#pragma once

#include <nlohmann/json.hpp>

#include "bench/simulate/extent.h"

namespace janus::bench {

// A report as `janusctl simulate --json` gives it: a line per policy, with the most GPUs that it
// paid for and the fewest that it asked for.
void PrintPolicies(const nlohmann::json& report);

// Whether the demand reaches far enough for ours to be compared with copies of the whole model.
// Nothing where ours was not run.
void PrintExtent(const nlohmann::json& report, double scale, const Extent& extent);

}  // namespace janus::bench
