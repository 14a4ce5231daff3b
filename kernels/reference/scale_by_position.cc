#include <algorithm>

#include "kernels/backends.h"

namespace janus::kernels {

void ScaleByPositionReference(const ScaleByPositionArgs& a) {
  const int64_t stride = a.row_stride != 0 ? a.row_stride : a.columns;
  for (int64_t t = 0; t < a.rows; ++t) {
    const int64_t step = (int64_t{a.positions[t]} + 1) / a.step;
    const float factor = a.factors[std::min(step, a.num_factors - 1)];
    for (int64_t n = 0; n < a.columns; ++n) a.x[t * stride + n] *= factor;
  }
}

}  // namespace janus::kernels
