#include <cmath>

#include "kernels/backends.h"
#include "kernels/element.h"

namespace janus::kernels {

void RmsNormReference(const RmsNormArgs& a) {
  for (int64_t t = 0; t < a.rows; ++t) {
    const float* x_h = a.x + t * a.hidden;
    double sum = 0.0;
    for (int64_t h = 0; h < a.hidden; ++h) sum += static_cast<double>(x_h[h]) * x_h[h];
    const double rms = std::sqrt(sum / static_cast<double>(a.hidden) + a.epsilon);
    for (int64_t h = 0; h < a.hidden; ++h) {
      const double y = x_h[h] / rms * ReadElement(a.weight, a.weight_dtype, h);
      WriteElement(a.y, a.y_dtype, t * a.hidden + h, static_cast<float>(y));
    }
  }
}

}  // namespace janus::kernels
