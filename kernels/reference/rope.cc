#include <cmath>

#include "kernels/backends.h"

namespace janus::kernels {

void RopeReference(const RopeArgs& a) {
  const int64_t stride = a.row_stride != 0 ? a.row_stride : int64_t{a.heads} * a.head_dim;
  const int half = a.rotary_dim / 2;
  for (int64_t t = 0; t < a.rows; ++t) {
    for (int i = 0; i < half; ++i) {
      const float angle = static_cast<float>(a.positions[t]) * a.inv_freq[i];
      const double c = std::cos(static_cast<double>(angle)) * a.attention_factor;
      const double s = std::sin(static_cast<double>(angle)) * a.attention_factor;
      const bool neighbours = a.pairing == RopePairing::kInterleaved;
      const int first = neighbours ? 2 * i : i;
      const int second = neighbours ? 2 * i + 1 : i + half;
      for (int h = 0; h < a.heads; ++h) {
        float* x = a.x + t * stride + int64_t{h} * a.head_dim;
        const double u = x[first];
        const double v = x[second];
        x[first] = static_cast<float>(u * c - v * s);
        x[second] = static_cast<float>(v * c + u * s);
      }
    }
  }
}

}  // namespace janus::kernels
