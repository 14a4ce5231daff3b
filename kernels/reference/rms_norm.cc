#include <cmath>

#include "kernels/backends.h"
#include "kernels/element.h"

namespace janus::kernels {

void RmsNormReference(const RmsNormArgs& a) {
  const int64_t x_stride = a.x_stride != 0 ? a.x_stride : a.groups * a.hidden;
  const int64_t y_stride = a.y_stride != 0 ? a.y_stride : a.groups * a.hidden;
  for (int64_t piece = 0; piece < a.rows * a.groups; ++piece) {
    const int64_t t = piece / a.groups;
    const int64_t g = piece % a.groups;
    const float* x_h = a.x + t * x_stride + g * a.hidden;
    double sum = 0.0;
    for (int64_t h = 0; h < a.hidden; ++h) sum += static_cast<double>(x_h[h]) * x_h[h];
    const double rms = std::sqrt(sum / static_cast<double>(a.hidden) + a.epsilon);
    for (int64_t h = 0; h < a.hidden; ++h) {
      const double y = x_h[h] / rms * ReadElement(a.weight, a.weight_dtype, h);
      WriteElement(a.y, a.y_dtype, t * y_stride + g * a.hidden + h, static_cast<float>(y));
    }
  }
}

}  // namespace janus::kernels
