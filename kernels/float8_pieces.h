#pragma once

// How a piece of a cache in fp8 is written (kernels.h). All devices share this arithmetic, because
// they must store the same bytes.

#include <bit>
#include <cstdint>

#include "common/dtype.h"
#include "kernels/kernels.h"

namespace janus::kernels {

// Magnitudes as integers: in their order, with infinity and then NaN above all numbers.
[[gnu::always_inline]] constexpr uint32_t MagnitudeOf(float x) {
  return std::bit_cast<uint32_t>(x) & 0x7fffffffu;
}

// The scale of a piece, from the largest MagnitudeOf in it. 448 is 1.75 * 2^8, so the power of 2 is
// 8 below that of `largest`, or 7 if its fraction is above 1.75. Always inline: kernels of one
// instruction set must not call a function that the linker could take from another's.
[[gnu::always_inline]] constexpr float PieceScale(uint32_t largest) {
  constexpr uint32_t kBias = 127;
  constexpr uint32_t kLeast = kBias - 100;
  if (largest >= 0x7f800000u) return std::bit_cast<float>(0x7fc00000u);
  const uint32_t exponent = (largest + 0x1fffffu) >> 23;
  return std::bit_cast<float>((exponent < kLeast + 8 ? kLeast : exponent - 8) << 23);
}
constexpr uint8_t PieceElement(float x, float scale) {
  return scale != scale ? uint8_t{0} : ToFloat8E4M3(x / scale);
}

}  // namespace janus::kernels
