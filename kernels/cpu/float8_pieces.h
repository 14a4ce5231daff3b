// Pieces of a cache in fp8 (../float8_pieces.h): the same bytes, sixteen numbers at a time.

#pragma once

#include "kernels/cpu/deal.h"
#include "kernels/cpu/lanes.h"
#include "kernels/float8_pieces.h"

namespace janus::kernels::JANUS_ISA {
namespace {

// Elements of x[0..count-1] to `to`; returns their scale.
JANUS_INLINE float StorePiece(const float* x, int64_t count, void* to) {
  V16 largest = Zero();
  uint32_t nan = 0;
  for (int64_t d = 0; d < count; d += kLanes) {
    const V16 v = LoadUpTo(DType::kFloat32, x + d, count - d);
    nan |= IsNan(v);
    largest = Max(largest, Max(v, Zero() - v));
  }
  const float scale = PieceScale(nan != 0 ? 0x7fc00000u : MagnitudeOf(MaxLanes(largest)));
  if (scale != scale) {
    std::memset(to, 0, static_cast<size_t>(count));
    return scale;
  }
  for (int64_t d = 0; d < count; d += kLanes) {
    StoreF8(static_cast<char*>(to) + d, LoadUpTo(DType::kFloat32, x + d, count - d) / Set(scale),
            Smaller(kLanes, count - d));
  }
  return scale;
}

// count numbers of a piece to `to`, as bf16, which holds each of them.
JANUS_INLINE void LoadPiece(const void* elements, float scale, int64_t count, uint16_t* to) {
  const V16 loads_of = Set(kLoadsOf<DType::kFloat8E4M3>);
  for (int64_t d = 0; d < count; d += kLanes) {
    const V16 v = LoadUpTo<DType::kFloat8E4M3>(static_cast<const char*>(elements) + d, count - d);
    StoreUpTo(DType::kBFloat16, to + d, v * loads_of * Set(scale), count - d);
  }
}

}  // namespace
}  // namespace janus::kernels::JANUS_ISA
