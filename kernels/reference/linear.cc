#include "kernels/backends.h"
#include "kernels/element.h"

namespace janus::kernels {

void LinearReference(const LinearArgs& a) {
  const int64_t x_stride = a.x_stride != 0 ? a.x_stride : a.inputs;
  const int64_t y_stride = a.y_stride != 0 ? a.y_stride : a.outputs;
  for (int64_t t = 0; t < a.rows; ++t) {
    for (int64_t n = 0; n < a.outputs; ++n) {
      double sum = 0.0;
      for (int64_t k = 0; k < a.inputs; ++k) {
        sum += static_cast<double>(ReadElement(a.x, a.x_dtype, t * x_stride + k)) *
               ReadElement(a.weight, a.weight_dtype, n * a.inputs + k);
      }
      if (a.bias != nullptr) sum += ReadElement(a.bias, a.bias_dtype, n);
      float& y = a.y[t * y_stride + n];
      y = static_cast<float>(a.accumulate ? y + sum : sum);
    }
  }
}

}  // namespace janus::kernels
