#include <cmath>

#include "kernels/backends.h"
#include "kernels/element.h"

namespace janus::kernels {

void GroupedExpertFfnReference(const GroupedExpertFfnArgs& a) {
  const DType weight = a.weight_dtype;
  const auto element = [&](const void* w, const void* scales, int64_t row, int64_t length,
                           int64_t k) -> double {
    const int64_t index = row * length + k;
    if (weight == DType::kMxfp4) {
      return Mxfp4Weight(static_cast<const uint8_t*>(w), static_cast<const uint8_t*>(scales),
                         index);
    }
    const double value = ReadElement(w, weight, index);
    if (weight != DType::kFloat8E4M3) return value;
    return value * static_cast<const float*>(
                       scales)[row / kScaleBlock * ScaleBlocks(length) + k / kScaleBlock];
  };
  const auto dot = [&](const void* x, const void* w, const void* scales, int64_t row,
                       int64_t length) {
    double sum = 0.0;
    for (int64_t k = 0; k < length; ++k) {
      sum += ReadElement(x, a.row_dtype, k) * element(w, scales, row, length, k);
    }
    return sum;
  };
  for (int64_t e = 0; e < a.num_experts; ++e) {
    const ActiveExpert& expert = a.experts[e];
    for (int64_t c = expert.first; c < int64_t{expert.first} + expert.count; ++c) {
      const Contribution& contribution = a.contributions[c];
      void* h_i = a.workspace;
      for (int64_t i = 0; i < a.intermediate; ++i) {
        const double g = dot(contribution.x, expert.gate, expert.gate_scales, i, a.hidden);
        const double u = dot(contribution.x, expert.up, expert.up_scales, i, a.hidden);
        const double silu = g / (1.0 + std::exp(-g));
        WriteElement(h_i, a.row_dtype, i, static_cast<float>(silu * u));
      }
      for (int64_t h = 0; h < a.hidden; ++h) {
        const double sum = dot(h_i, expert.down, expert.down_scales, h, a.intermediate);
        WriteElement(contribution.y, a.y_dtype, h, static_cast<float>(contribution.weight * sum));
      }
    }
  }
}

}  // namespace janus::kernels
