#include <cmath>

#include "kernels/backends.h"

namespace janus::kernels {

void PointwiseReference(const PointwiseArgs& a) {
  const int64_t stride = a.row_stride != 0 ? a.row_stride : a.columns;
  for (int64_t t = 0; t < a.rows; ++t) {
    for (int64_t n = 0; n < a.columns; ++n) {
      float& x = a.x[t * stride + n];
      if (a.function == PointFunction::kSigmoid) {
        x = static_cast<float>(1.0 / (1.0 + std::exp(-double{x})));
      } else if (x < -a.limit) {
        x = -a.limit;
      } else if (x > a.limit) {
        x = a.limit;
      }
    }
  }
}

}  // namespace janus::kernels
