#include "kernels/backends.h"

namespace janus::kernels {

void PermuteRowsReference(const PermuteRowsArgs& a) {
  const int64_t x_stride = a.x_stride_bytes != 0 ? a.x_stride_bytes : a.row_bytes;
  const int64_t y_stride = a.y_stride_bytes != 0 ? a.y_stride_bytes : a.row_bytes;
  for (int64_t i = 0; i < a.rows; ++i) {
    const int64_t from = a.x_map != nullptr ? a.x_map[i] : i;
    const int64_t to = a.y_map != nullptr ? a.y_map[i] : i;
    if (from < 0 || to < 0) continue;
    const auto* x = a.x_list != nullptr ? static_cast<const unsigned char*>(a.x_list[from])
                                        : static_cast<const unsigned char*>(a.x) + from * x_stride;
    auto* y = a.y_list != nullptr ? static_cast<unsigned char*>(a.y_list[to])
                                  : static_cast<unsigned char*>(a.y) + to * y_stride;
    for (int64_t b = 0; b < a.row_bytes; ++b) y[b] = x[b];
  }
}

}  // namespace janus::kernels
