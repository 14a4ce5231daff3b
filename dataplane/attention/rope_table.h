#pragma once

// What attention computes from positions alone.

#include <cstdint>
#include <vector>

#include "common/model/description.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// The angle per position of each pair, [rotary_dim/2], plain, YaRN or Llama 3's. Computed in fp32
// in the same steps as the reference implementations, because at long positions the rounding of the
// table is visible.
std::vector<float> InverseFrequencies(const RopeDescription& rope);
// The same in the context's memory.
kernels::Buffer InverseFrequenciesIn(kernels::Context& context, const RopeDescription& rope);

// What queries at positions p with (p + 1) / floor = 0, 1, ... are multiplied by, for a sequence of
// up to so many positions. Computed in fp32, as the reference implementation does.
std::vector<float> TemperatureFactors(const TemperatureDescription& temperature, int64_t positions);

}  // namespace janus::dataplane
