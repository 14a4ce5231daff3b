#include "dataplane/attention/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace janus::dataplane {
namespace {

// The pair of dimensions, as a fractional index, that turns `rotations` times within the original
// positions.
double DimensionOf(double rotations, const RopeDescription& rope) {
  const double positions = rope.yarn->original_positions;
  return rope.rotary_dim * std::log(positions / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(rope.theta));
}

// The frequency that Llama 3.1 makes of `frequency`.
float Stretched(float frequency, const Llama3RopeDescription& llama3) {
  const auto factor = static_cast<float>(llama3.factor);
  const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
  if (wavelength < static_cast<float>(llama3.original_positions / llama3.high_turns)) {
    return frequency;
  }
  if (wavelength > static_cast<float>(llama3.original_positions / llama3.low_turns)) {
    return frequency / factor;
  }
  const double span = llama3.high_turns - llama3.low_turns;
  if (span <= 0.0) return frequency;
  const float turns = static_cast<float>(llama3.original_positions) / wavelength;
  const float kept = (turns - static_cast<float>(llama3.low_turns)) / static_cast<float>(span);
  return (1.0f - kept) * frequency / factor + kept * frequency;
}

}  // namespace

std::vector<float> InverseFrequencies(const RopeDescription& rope) {
  std::vector<float> out;
  for (int i = 0; i < rope.rotary_dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rope.rotary_dim);
    out.push_back(1.0f / std::pow(static_cast<float>(rope.theta), exponent));
  }
  if (rope.llama3) {
    for (float& frequency : out) frequency = Stretched(frequency, *rope.llama3);
  }
  if (!rope.yarn) return out;
  const YarnDescription& yarn = *rope.yarn;
  double low = DimensionOf(yarn.beta_fast, rope);
  double high = DimensionOf(yarn.beta_slow, rope);
  if (yarn.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rope.rotary_dim - 1));
  if (low == high) high += 0.001;  // avoids division by zero
  for (size_t i = 0; i < out.size(); ++i) {
    const float ramp =
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float kept = 1.0f - std::clamp(ramp, 0.0f, 1.0f);
    const float stretched = out[i] / static_cast<float>(yarn.factor);
    out[i] = stretched * (1.0f - kept) + out[i] * kept;
  }
  return out;
}

kernels::Buffer InverseFrequenciesIn(kernels::Context& context, const RopeDescription& rope) {
  const std::vector<float> table = InverseFrequencies(rope);
  return context.AllocateCopyOrNote(table.data(), table.size() * sizeof(float));
}

std::vector<float> TemperatureFactors(const TemperatureDescription& temperature,
                                      int64_t positions) {
  std::vector<float> out(static_cast<size_t>(temperature.Steps(positions)));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = std::log1p(static_cast<float>(i)) * static_cast<float>(temperature.scale) + 1.0f;
  }
  return out;
}

}  // namespace janus::dataplane
