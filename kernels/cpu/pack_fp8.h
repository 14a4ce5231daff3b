// Rows in fp8 with a scale for each block of 128. No sum, so the bits are the reference's.

#pragma once

#include "kernels/cpu/deal.h"
#include "kernels/cpu/lanes.h"

namespace janus::kernels::JANUS_ISA {
namespace {

// The elements of a block with some that are not finite: those become NaN with their sign.
template <DType kType>
void PackNotFinite(const char* x, int64_t count, V16 factor, uint8_t* packed) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const V16 v = LoadUpTo<kType>(x + i * Bytes(kType), count - i);
    const uint32_t not_finite = IsNan(v - v);
    const int64_t here = Smaller(kLanes, count - i);
    StoreF8(packed + i, Blend(not_finite, v * factor, Zero()), here);
    alignas(64) float values[kLanes];
    Store(values, v);
    for (int64_t j = 0; j < here; ++j) {
      if ((not_finite >> j & 1u) == 0) continue;
      packed[i + j] = (__builtin_bit_cast(uint32_t, values[j]) >> 31) != 0 ? 0xff : 0x7f;
    }
  }
}

// Returns the scale.
template <DType kType>
JANUS_INLINE float PackBlock(const char* x, int64_t count, uint8_t* packed) {
  constexpr int64_t kSize = Bytes(kType);
  V16 most = Zero();
  V16 differences = Zero();  // NaN once an element is not finite
  for (int64_t i = 0; i < count; i += kLanes) {
    const V16 v = LoadUpTo<kType>(x + i * kSize, count - i);
    differences = differences + (v - v);
    most = Max(Max(v, Zero() - v), most);
  }
  const bool is_finite = IsNan(differences) == 0;
  if (!is_finite) {
    most = Zero();
    for (int64_t i = 0; i < count; i += kLanes) {
      const V16 v = LoadUpTo<kType>(x + i * kSize, count - i);
      most = Max(Blend(IsNan(v - v), Max(v, Zero() - v), Zero()), most);
    }
  }
  const float amax = MaxLanes(most);
  const bool is_zero = amax < kLeastFp8Amax;
  const V16 factor = Set(is_zero ? 0.0f : 448.0f / amax);
  if (!is_finite) {
    PackNotFinite<kType>(x, count, factor, packed);
  } else {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      const V16 v = LoadAs<kType>(x + i * kSize) * factor;
      JANUS_UNROLL for (int r = 0; r < kRegs; ++r) RStoreF8(packed + i + r * kRegLanes, v.r[r]);
    }
    if (i < count) {
      StoreF8(packed + i, LoadPartial<kType>(x + i * kSize, count - i) * factor, count - i);
    }
  }
  return is_zero ? 0.0f : amax / 448.0f;
}

template <DType kType>
void PackFp8Rows(const PackFp8Args& a, int part, int parts) {
  const int64_t blocks = CeilDiv(a.hidden, kScaleBlock);
  const int64_t x_stride = a.x_stride != 0 ? a.x_stride : a.hidden;
  const int64_t packed_stride = a.packed_stride != 0 ? a.packed_stride : a.hidden;
  const int64_t scale_stride = a.scale_stride != 0 ? a.scale_stride : blocks;
  const Span mine = Share(a.rows * blocks, part, parts);
  for (int64_t unit = mine.begin; unit < mine.end; ++unit) {
    const int64_t t = unit / blocks;
    const int64_t block = unit % blocks;
    const int64_t begin = block * kScaleBlock;
    a.scales[t * scale_stride + block] =
        PackBlock<kType>(static_cast<const char*>(a.x) + (t * x_stride + begin) * Bytes(kType),
                         Smaller(kScaleBlock, a.hidden - begin),
                         a.packed + t * packed_stride + begin);
  }
}

void PackFp8Part(const PackFp8Args& a, int part, int parts) {
  a.x_dtype == DType::kFloat32 ? PackFp8Rows<DType::kFloat32>(a, part, parts)
                               : PackFp8Rows<DType::kBFloat16>(a, part, parts);
}

// Elements of a block, which may be NaN.
void UnpackNan(DType type, const uint8_t* packed, int64_t count, V16 scale, char* y) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const V16 values = LoadUpTo<DType::kFloat8E4M3>(packed + i, count - i) * Set(256.0f);
    uint32_t nan = 0;
    for (int64_t j = 0; j < Smaller(kLanes, count - i); ++j) {
      nan |= static_cast<uint32_t>((packed[i + j] & 0x7f) == 0x7f) << j;
    }
    StoreUpTo(type, y + i * Bytes(type), Blend(nan, values * scale, Set(__builtin_nanf(""))),
              count - i);
  }
}

template <DType kType>
JANUS_INLINE void UnpackBlock(const uint8_t* packed, int64_t count, V16 scale, char* y) {
  const V16 loads_of = Set(kLoadsOf<DType::kFloat8E4M3>);
  V16 most = Zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    const V16 values = LoadUpTo<DType::kFloat8E4M3>(packed + i, count - i) * loads_of;
    most = Max(most, Max(values, Zero() - values));
    StoreUpTo(kType, y + i * Bytes(kType), values * scale, count - i);
  }
  // NaN was read as 480, which no number is.
  if (MaxLanes(most) > 448.0f) UnpackNan(kType, packed, count, scale, y);
}

template <DType kType>
void UnpackFp8Rows(const UnpackFp8Args& a, int part, int parts) {
  const int64_t blocks = CeilDiv(a.hidden, kScaleBlock);
  const int64_t packed_stride = a.packed_stride != 0 ? a.packed_stride : a.hidden;
  const int64_t scale_stride = a.scale_stride != 0 ? a.scale_stride : blocks;
  const int64_t y_stride = a.y_stride != 0 ? a.y_stride : a.hidden;
  const Span mine = Share(a.rows * blocks, part, parts);
  for (int64_t unit = mine.begin; unit < mine.end; ++unit) {
    const int64_t t = unit / blocks;
    const int64_t block = unit % blocks;
    const int64_t begin = block * kScaleBlock;
    const auto* const listed =
        a.packed_list != nullptr ? static_cast<const uint8_t*>(a.packed_list[t]) : nullptr;
    const uint8_t* const packed = listed != nullptr ? listed : a.packed + t * packed_stride;
    const float* const scales =
        listed != nullptr ? reinterpret_cast<const float*>(listed + a.list_scales_at)
                          : a.scales + t * scale_stride;
    UnpackBlock<kType>(packed + begin, Smaller(kScaleBlock, a.hidden - begin), Set(scales[block]),
                       static_cast<char*>(a.y) + (t * y_stride + begin) * Bytes(kType));
  }
}

void UnpackFp8Part(const UnpackFp8Args& a, int part, int parts) {
  a.y_dtype == DType::kFloat32 ? UnpackFp8Rows<DType::kFloat32>(a, part, parts)
                               : UnpackFp8Rows<DType::kBFloat16>(a, part, parts);
}

}  // namespace
}  // namespace janus::kernels::JANUS_ISA
