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

}  // namespace

std::vector<float> InverseFrequencies(const RopeDescription& rope) {
  std::vector<float> out;
  for (int i = 0; i < rope.rotary_dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rope.rotary_dim);
    out.push_back(1.0f / std::pow(static_cast<float>(rope.theta), exponent));
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

}  // namespace janus::dataplane
