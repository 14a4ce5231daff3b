#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/backends.h"
#include "kernels/element.h"

namespace janus::kernels {

void PackFp8Reference(const PackFp8Args& a) {
  const int64_t blocks = ScaleBlocks(a.hidden);
  const int64_t x_stride = a.x_stride != 0 ? a.x_stride : a.hidden;
  const int64_t packed_stride = a.packed_stride != 0 ? a.packed_stride : a.hidden;
  const int64_t scale_stride = a.scale_stride != 0 ? a.scale_stride : blocks;
  for (int64_t t = 0; t < a.rows; ++t) {
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = block * kScaleBlock;
      const int64_t end = std::min(a.hidden, begin + kScaleBlock);
      float amax = 0.0f;
      for (int64_t h = begin; h < end; ++h) {
        const float x = ReadElement(a.x, a.x_dtype, t * x_stride + h);
        if (std::isfinite(x)) amax = std::max(amax, std::abs(x));
      }
      const bool is_zero = amax < kLeastFp8Amax;
      const float factor = is_zero ? 0.0f : 448.0f / amax;
      a.scales[t * scale_stride + block] = is_zero ? 0.0f : amax / 448.0f;
      for (int64_t h = begin; h < end; ++h) {
        const float x = ReadElement(a.x, a.x_dtype, t * x_stride + h);
        const auto nan = static_cast<uint8_t>(std::signbit(x) ? 0xff : 0x7f);
        a.packed[t * packed_stride + h] = std::isfinite(x) ? ToFloat8E4M3(x * factor) : nan;
      }
    }
  }
}

void UnpackFp8Reference(const UnpackFp8Args& a) {
  const int64_t packed_stride = a.packed_stride != 0 ? a.packed_stride : a.hidden;
  const int64_t scale_stride = a.scale_stride != 0 ? a.scale_stride : ScaleBlocks(a.hidden);
  const int64_t y_stride = a.y_stride != 0 ? a.y_stride : a.hidden;
  for (int64_t t = 0; t < a.rows; ++t) {
    const auto* const listed =
        a.packed_list != nullptr ? static_cast<const uint8_t*>(a.packed_list[t]) : nullptr;
    const uint8_t* const packed = listed != nullptr ? listed : a.packed + t * packed_stride;
    const float* const scales = listed != nullptr
                                    ? reinterpret_cast<const float*>(listed + a.list_scales_at)
                                    : a.scales + t * scale_stride;
    for (int64_t h = 0; h < a.hidden; ++h) {
      const float value = FromFloat8E4M3(packed[h]);
      const float scaled = value * scales[h / kScaleBlock];
      WriteElement(a.y, a.y_dtype, t * y_stride + h,
                   std::isnan(value) ? std::bit_cast<float>(0x7fc00000u) : scaled);
    }
  }
}

}  // namespace janus::kernels
