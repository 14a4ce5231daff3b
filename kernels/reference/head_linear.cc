#include "kernels/backends.h"
#include "kernels/element.h"

namespace janus::kernels {

void HeadLinearReference(const HeadLinearArgs& a) {
  for (int64_t t = 0; t < a.rows; ++t) {
    for (int64_t h = 0; h < a.heads; ++h) {
      const float* x_k = a.x + t * a.x_row_stride + h * a.x_head_stride;
      for (int64_t n = 0; n < a.outputs; ++n) {
        double sum = 0.0;
        for (int64_t k = 0; k < a.inputs; ++k) {
          const int64_t at = a.transposed ? k * a.outputs + n : n * a.inputs + k;
          sum += static_cast<double>(x_k[k]) *
                 ReadElement(a.weight, a.weight_dtype, h * a.weight_head_stride + at);
        }
        WriteElement(a.y, a.y_dtype, t * a.y_row_stride + h * a.y_head_stride + n,
                     static_cast<float>(sum));
      }
    }
  }
}

}  // namespace janus::kernels
