#pragma once

#include <vector>

#include "common/model/description.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// The angle per position of each pair, [rotary_dim/2], plain or YaRN. Computed in fp32 in the same
// steps as the reference implementations, because at long positions the rounding of the table is
// visible.
std::vector<float> InverseFrequencies(const RopeDescription& rope);
// The same in the context's memory.
kernels::Buffer InverseFrequenciesIn(kernels::Context& context, const RopeDescription& rope);

}  // namespace janus::dataplane
