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
  const auto activate = [&](double g, double u) {
    if (a.swiglu_limit <= 0.0f) return g / (1.0 + std::exp(-g)) * u;
    const double limit = a.swiglu_limit;
    if (g > limit) g = limit;
    if (u > limit) u = limit;
    if (u < -limit) u = -limit;
    return g / (1.0 + std::exp(-a.swiglu_alpha * g)) * (u + 1.0);
  };
  for (int64_t e = 0; e < a.num_experts; ++e) {
    const ActiveExpert& expert = a.experts[e];
    for (int64_t c = expert.first; c < int64_t{expert.first} + expert.count; ++c) {
      const Contribution& contribution = a.contributions[c];
      void* h_i = a.workspace;
      for (int64_t i = 0; i < a.intermediate; ++i) {
        double g = dot(contribution.x, expert.gate, expert.gate_scales, i, a.hidden);
        double u = dot(contribution.x, expert.up, expert.up_scales, i, a.hidden);
        if (a.weighs_inputs) {
          g *= contribution.weight;
          u *= contribution.weight;
        }
        if (a.has_bias) {
          g += expert.gate_bias[i];
          u += expert.up_bias[i];
        }
        WriteElement(h_i, a.row_dtype, i, static_cast<float>(activate(g, u)));
      }
      for (int64_t h = 0; h < a.hidden; ++h) {
        double sum = dot(h_i, expert.down, expert.down_scales, h, a.intermediate);
        if (a.has_bias) sum += expert.down_bias[h];
        if (!a.weighs_inputs) sum *= contribution.weight;
        WriteElement(contribution.y, a.y_dtype, h, static_cast<float>(sum));
      }
    }
  }
}

}  // namespace janus::kernels
