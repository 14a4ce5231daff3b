#pragma once

#include <cmath>
#include <cstdint>
#include <random>

#include "tests/unit/kernels/guarded_array.h"

namespace janus::kernels {

// The format of arrays that hold bytes of mxfp4.
inline constexpr DType kBytes = DType::kFloat8E4M3;

inline uint8_t* BytesIn(GuardedArray& array) {
  return static_cast<uint8_t*>(array.data());
}
inline const uint8_t* BytesIn(const GuardedArray& array) {
  return static_cast<const uint8_t*>(array.data());
}

// All numbers of E2M1, with scales of four neighbouring exponents, such that `deviation` is about
// that of a weight. `weights` are two to a byte.
inline void FillMxfp4(std::mt19937_64& random, float deviation, GuardedArray& weights,
                      GuardedArray& scales) {
  for (int64_t i = 0; i < weights.count(); ++i)
    BytesIn(weights)[i] = static_cast<uint8_t>(random());
  const int middle = 127 + static_cast<int>(std::lround(std::log2(deviation / 2.9f)));
  for (int64_t i = 0; i < scales.count(); ++i) {
    BytesIn(scales)[i] = static_cast<uint8_t>(middle - 2 + static_cast<int>(random() % 4));
  }
}

// The same numbers in bfloat16, an element each.
inline void WriteOutMxfp4(const GuardedArray& weights, const GuardedArray& scales,
                          GuardedArray& out) {
  for (int64_t i = 0; i < 2 * weights.count(); ++i) {
    out.set(i, Mxfp4Weight(BytesIn(weights), BytesIn(scales), i));
  }
}

}  // namespace janus::kernels
