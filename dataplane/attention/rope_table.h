#pragma once

#include <vector>

#include "common/model/description.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// The angle per position of each pair, [rotary_dim/2], plain or YaRN. In fp32 step by step, as the
// reference implementations compute the table: at long positions its rounding shows.
std::vector<float> InverseFrequencies(const RopeDescription& rope);
// The same in the context's memory.
kernels::Buffer InverseFrequenciesIn(kernels::Context& context, const RopeDescription& rope);

}  // namespace janus::dataplane
