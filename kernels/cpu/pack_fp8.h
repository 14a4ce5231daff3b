// Rows in fp8 with a scale for each block of 128. No sum, so the bits are the reference's.

#pragma once

#include <type_traits>

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

// The largest magnitude of kCount elements, as the bits of a float: infinity or more if one of them
// is not finite. Plain loops of a fixed length, which the compiler turns into vectors.
template <DType kType, int64_t kCount>
JANUS_INLINE uint32_t LargestBits(const char* x) {
  using Element = std::conditional_t<kType == DType::kFloat32, uint32_t, uint16_t>;
  constexpr auto kMagnitude = static_cast<Element>(static_cast<Element>(~Element{0}) >> 1);
  Element bits[kCount];  // elements may lie at any address
  std::memcpy(bits, x, sizeof bits);
  Element most = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    const auto magnitude = static_cast<Element>(bits[i] & kMagnitude);
    most = magnitude > most ? magnitude : most;
  }
  return kType == DType::kFloat32 ? most : uint32_t{most} << 16;
}

// Returns the scale.
template <DType kType>
JANUS_INLINE float PackBlock(const char* x, int64_t count, uint8_t* packed) {
  constexpr int64_t kSize = Bytes(kType);
  constexpr uint32_t kInfinity = 0x7f800000u;
  uint32_t largest = 0;
  if (count == kScaleBlock) {
    largest = LargestBits<kType, kScaleBlock>(x);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t one = LargestBits<kType, 1>(x + i * kSize);
      largest = one > largest ? one : largest;
    }
  }
  const bool is_finite = largest < kInfinity;
  float amax = __builtin_bit_cast(float, largest);
  if (!is_finite) {
    V16 most = Zero();
    for (int64_t i = 0; i < count; i += kLanes) {
      const V16 v = LoadUpTo<kType>(x + i * kSize, count - i);
      most = Max(Blend(IsNan(v - v), Max(v, Zero() - v), Zero()), most);
    }
    amax = MaxLanes(most);
  }
  const bool is_zero = amax < kLeastFp8Amax;
  const V16 factor = Set(is_zero ? 0.0f : 448.0f / amax);
  if (!is_finite) {
    PackNotFinite<kType>(x, count, factor, packed);
  } else if (count == kScaleBlock) {
    JANUS_UNROLL for (int64_t i = 0; i < kScaleBlock; i += kLanes) {
      const V16 v = LoadAs<kType>(x + i * kSize) * factor;
      JANUS_UNROLL for (int r = 0; r < kRegs; ++r) RStoreF8(packed + i + r * kRegLanes, v.r[r]);
    }
  } else {
    for (int64_t i = 0; i < count; i += kLanes) {
      StoreF8(packed + i, LoadUpTo<kType>(x + i * kSize, count - i) * factor,
              Smaller(kLanes, count - i));
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
    a.scales[t * scale_stride + block] = PackBlock<kType>(
        static_cast<const char*>(a.x) + (t * x_stride + begin) * Bytes(kType),
        Smaller(kScaleBlock, a.hidden - begin), a.packed + t * packed_stride + begin);
  }
}

void PackFp8Part(const PackFp8Args& a, int part, int parts) {
  a.x_dtype == DType::kFloat32 ? PackFp8Rows<DType::kFloat32>(a, part, parts)
                               : PackFp8Rows<DType::kBFloat16>(a, part, parts);
}

// A block of which elements may be NaN, or of fewer elements, or whose scale is near the largest
// float.
void UnpackAny(DType type, const uint8_t* packed, int64_t count, float scale, char* y) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const V16 values =
        LoadUpTo<DType::kFloat8E4M3>(packed + i, count - i) * Set(kLoadsOf<DType::kFloat8E4M3>);
    uint32_t nan = 0;
    for (int64_t j = 0; j < Smaller(kLanes, count - i); ++j) {
      nan |= static_cast<uint32_t>((packed[i + j] & 0x7f) == 0x7f) << j;
    }
    StoreUpTo(type, y + i * Bytes(type), Blend(nan, values * Set(scale), Set(__builtin_nanf(""))),
              count - i);
  }
}

// Whether one of kScaleBlock codes is NaN: adding 1 to its seven bits carries into the eighth.
JANUS_INLINE bool HasNan(const uint8_t* packed) {
  uint64_t words[kScaleBlock / 8];
  std::memcpy(words, packed, sizeof words);
  uint64_t carries = 0;
  for (const uint64_t word : words) {
    carries |= (word & 0x7f7f7f7f7f7f7f7fu) + 0x0101010101010101u;
  }
  return (carries & 0x8080808080808080u) != 0;
}

template <DType kType>
JANUS_INLINE void UnpackBlock(const uint8_t* packed, int64_t count, float scale, char* y) {
  constexpr float kLoads = kLoadsOf<DType::kFloat8E4M3>;
  // Times 256 is exact, so it may come first, unless it overflows.
  const float scaled = scale * kLoads;
  if (count != kScaleBlock || !(__builtin_fabsf(scaled) < __builtin_inff()) || HasNan(packed)) {
    UnpackAny(kType, packed, count, scale, y);
    return;
  }
  const V16 factor = Set(scaled);
  JANUS_UNROLL for (int64_t i = 0; i < kScaleBlock; i += kLanes) {
    StoreAs(kType, y + i * Bytes(kType), LoadAs<DType::kFloat8E4M3>(packed + i) * factor);
  }
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
    const float* const scales = listed != nullptr
                                    ? reinterpret_cast<const float*>(listed + a.list_scales_at)
                                    : a.scales + t * scale_stride;
    UnpackBlock<kType>(packed + begin, Smaller(kScaleBlock, a.hidden - begin), scales[block],
                       static_cast<char*>(a.y) + (t * y_stride + begin) * Bytes(kType));
  }
}

void UnpackFp8Part(const UnpackFp8Args& a, int part, int parts) {
  a.y_dtype == DType::kFloat32 ? UnpackFp8Rows<DType::kFloat32>(a, part, parts)
                               : UnpackFp8Rows<DType::kBFloat16>(a, part, parts);
}

}  // namespace
}  // namespace janus::kernels::JANUS_ISA
