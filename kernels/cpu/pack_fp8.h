// Rows in fp8 with a scale for each block of 128. No sum, so the bits are the reference's.

#pragma once

#include "kernels/cpu/deal.h"
#include "kernels/cpu/lanes.h"

namespace janus::kernels::JANUS_ISA {
namespace {

void PackFp8Part(const PackFp8Args& a, int part, int parts) {
  const int64_t blocks = CeilDiv(a.hidden, kScaleBlock);
  const int64_t x_stride = a.x_stride != 0 ? a.x_stride : a.hidden;
  const int64_t packed_stride = a.packed_stride != 0 ? a.packed_stride : a.hidden;
  const int64_t scale_stride = a.scale_stride != 0 ? a.scale_stride : blocks;
  const int64_t size = Bytes(a.x_dtype);
  const Span mine = Share(a.rows * blocks, part, parts);
  for (int64_t unit = mine.begin; unit < mine.end; ++unit) {
    const int64_t t = unit / blocks;
    const int64_t block = unit % blocks;
    const int64_t begin = block * kScaleBlock;
    const int64_t count = Smaller(kScaleBlock, a.hidden - begin);
    const char* x = static_cast<const char*>(a.x) + (t * x_stride + begin) * size;
    uint8_t* packed = a.packed + t * packed_stride + begin;
    V16 most = Zero();
    for (int64_t i = 0; i < count; i += kLanes) {
      const V16 v = LoadUpTo(a.x_dtype, x + i * size, count - i);
      const V16 magnitude = Blend(IsNan(v - v), Max(v, Zero() - v), Zero());
      most = Max(magnitude, most);
    }
    const float amax = MaxLanes(most);
    const bool is_zero = amax < kLeastFp8Amax;
    a.scales[t * scale_stride + block] = is_zero ? 0.0f : amax / 448.0f;
    const V16 factor = Set(is_zero ? 0.0f : 448.0f / amax);
    for (int64_t i = 0; i < count; i += kLanes) {
      const V16 v = LoadUpTo(a.x_dtype, x + i * size, count - i);
      const V16 scaled = v * factor;
      const uint32_t not_finite = IsNan(v - v);
      alignas(64) int32_t codes[kLanes];
      JANUS_UNROLL for (int r = 0; r < kRegs; ++r) {
        const RegI magnitude = IAnd(RCast(scaled.r[r]), ISet(0x7fffffff));
        const RegI sign = IAnd(IShiftRight<24>(RCast(v.r[r])), ISet(0x80));
        RStore(codes + r * kRegLanes, RCast(IAdd(RToFloat8(RCast(magnitude)), sign)));
      }
      for (int64_t j = 0; j < Smaller(kLanes, count - i); ++j) {
        const int32_t nan = (codes[j] & 0x80) | 0x7f;
        packed[i + j] = static_cast<uint8_t>((not_finite >> j & 1u) != 0 ? nan : codes[j]);
      }
    }
  }
}

void UnpackFp8Part(const UnpackFp8Args& a, int part, int parts) {
  const int64_t blocks = CeilDiv(a.hidden, kScaleBlock);
  const int64_t packed_stride = a.packed_stride != 0 ? a.packed_stride : a.hidden;
  const int64_t scale_stride = a.scale_stride != 0 ? a.scale_stride : blocks;
  const int64_t y_stride = a.y_stride != 0 ? a.y_stride : a.hidden;
  const int64_t size = Bytes(a.y_dtype);
  const Span mine = Share(a.rows * blocks, part, parts);
  for (int64_t unit = mine.begin; unit < mine.end; ++unit) {
    const int64_t t = unit / blocks;
    const int64_t block = unit % blocks;
    const int64_t begin = block * kScaleBlock;
    const int64_t count = Smaller(kScaleBlock, a.hidden - begin);
    const uint8_t* packed = a.packed + t * packed_stride + begin;
    char* y = static_cast<char*>(a.y) + (t * y_stride + begin) * size;
    const V16 scale = Set(a.scales[t * scale_stride + block]);
    for (int64_t i = 0; i < count; i += kLanes) {
      uint8_t codes[kLanes] = {};
      std::memcpy(codes, packed + i, static_cast<size_t>(Smaller(kLanes, count - i)));
      V16 values;
      JANUS_UNROLL for (int r = 0; r < kRegs; ++r) {
        values.r[r] = RMul(RLoadF8Of256(codes + r * kRegLanes), RSet(256.0f));
      }
      uint32_t nan = 0;
      for (int j = 0; j < kLanes; ++j) {
        nan |= static_cast<uint32_t>((codes[j] & 0x7f) == 0x7f) << j;
      }
      StoreUpTo(a.y_dtype, y + i * size, Blend(nan, values * scale, Set(__builtin_nanf(""))),
                count - i);
    }
  }
}

}  // namespace
}  // namespace janus::kernels::JANUS_ISA
