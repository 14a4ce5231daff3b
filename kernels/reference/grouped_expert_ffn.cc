#include <cmath>

#include "kernels/backends.h"
#include "kernels/element.h"

namespace janus::kernels {

void GroupedExpertFfnReference(const GroupedExpertFfnArgs& a) {
  const DType weight = a.weight_dtype;
  const auto dot = [](const void* x, DType x_type, const void* w, DType w_type, int64_t row,
                      int64_t length) {
    double sum = 0.0;
    for (int64_t k = 0; k < length; ++k) {
      sum +=
          static_cast<double>(ReadElement(x, x_type, k)) * ReadElement(w, w_type, row * length + k);
    }
    return sum;
  };
  for (int64_t e = 0; e < a.num_experts; ++e) {
    const ActiveExpert& expert = a.experts[e];
    for (int64_t c = expert.first; c < int64_t{expert.first} + expert.count; ++c) {
      const Contribution& contribution = a.contributions[c];
      void* h_i = a.workspace;
      for (int64_t i = 0; i < a.intermediate; ++i) {
        const double g = dot(contribution.x, a.row_dtype, expert.gate, weight, i, a.hidden);
        const double u = dot(contribution.x, a.row_dtype, expert.up, weight, i, a.hidden);
        const double silu = g / (1.0 + std::exp(-g));
        WriteElement(h_i, a.row_dtype, i, static_cast<float>(silu * u));
      }
      for (int64_t h = 0; h < a.hidden; ++h) {
        const double sum = dot(h_i, a.row_dtype, expert.down, weight, h, a.intermediate);
        WriteElement(contribution.y, a.y_dtype, h, static_cast<float>(contribution.weight * sum));
      }
    }
  }
}

}  // namespace janus::kernels
