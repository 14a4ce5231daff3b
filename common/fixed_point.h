#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/dtype.h"
#include "common/status.h"

namespace janus {

// The arithmetic of the sum rule FixedPoint (docs/design/015-exact-sums.md). A contribution becomes
// an integer, in units of 2^s that are fixed for its layer. Sums of integers are exact: wherever
// and in whatever order they are added, their bits are the same.
//
// A contribution that is not finite becomes kNotFinite, and so does every sum with it. Attention
// reads it as NaN. So a request whose numbers overflow ends as it does with contributions.

// What a service adds by. Equal on all members of an epoch, and constant for a worker's life.
struct FixedPointSums {
  static constexpr int kLeastExponent = -100;
  static constexpr int kMostExponent = 100;
  static constexpr int kMostTerms = 16;  // of a sum: a model's top-k

  // Of an element of a sum in the exchange: 32 or 24. 0: contributions travel one by one (the rule
  // Contributions).
  int bits = 0;
  std::vector<int8_t> exponents;  // s, by MoE layer

  bool on() const { return bits != 0; }
  int exponent(int layer) const { return exponents[static_cast<size_t>(layer)]; }
  friend bool operator==(const FixedPointSums&, const FixedPointSums&) = default;
};

// Whether a model with these layers and experts per row can add so. InvalidArgument says what is
// wrong, without the name of a field in front.
Status Validate(const FixedPointSums& sums, int moe_layers, int top_k);

// The same for equal sums; 0 for the rule Contributions.
uint64_t HashOf(const FixedPointSums& sums);

// Bytes of a sum of `hidden` elements. Elements are little-endian and lie without gaps.
constexpr size_t SumBytes(int bits, int hidden) {
  return static_cast<size_t>(hidden) * static_cast<size_t>(bits) / 8;
}

constexpr int32_t NotFinite(int bits) {
  return bits == 24 ? -(1 << 23) : INT32_MIN;
}

// The largest magnitude of one contribution: sums of so many stay within `bits`, and above
// NotFinite.
constexpr int32_t FixedLimit(int bits, int top_k) {
  return bits == 24 ? ((1 << 23) - 1) / top_k : (1 << 27) - 1;
}

// 2^exponent, for -126 to 127.
constexpr float PowerOfTwo(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

// One contribution: rounded to nearest, ties to even, and clamped to +-limit. `per_unit`:
// 2^-exponent. Sets `clamped` if it was too large.
constexpr int32_t ToFixed(float value, float per_unit, int32_t limit, int bits, bool& clamped) {
  constexpr uint32_t kSign = 0x80000000u;
  const uint32_t sign = std::bit_cast<uint32_t>(value) & kSign;
  if ((std::bit_cast<uint32_t>(value) & ~kSign) >= 0x7f800000u) return NotFinite(bits);
  float magnitude = std::bit_cast<float>(std::bit_cast<uint32_t>(value * per_unit) & ~kSign);
  if (magnitude > 0x1p27f) magnitude = 0x1p27f;
  // From 2^23 on a float is an integer. Below, this sum has no bits behind the point.
  if (magnitude < 0x1p23f) magnitude = (magnitude + 0x1p23f) - 0x1p23f;
  auto fixed = static_cast<int32_t>(magnitude);
  if (fixed > limit) {
    fixed = limit;
    clamped = true;
  }
  return sign != 0 ? -fixed : fixed;
}

// Exact in any order, for as many terms as FixedLimit was computed for. Sums of values from outside
// may wrap.
constexpr int32_t AddFixed(int32_t a, int32_t b, int bits) {
  if (a == NotFinite(bits) || b == NotFinite(bits)) return NotFinite(bits);
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}

// `unit`: 2^exponent. Rounded once, since a float has fewer bits.
constexpr float FromFixed(int32_t sum, float unit, int bits) {
  if (sum == NotFinite(bits)) return std::bit_cast<float>(0x7fc00000u);
  return static_cast<float>(sum) * unit;
}

// An element of a sum at any address.
constexpr int32_t LoadFixed(const unsigned char* at, int bits) {
  const uint32_t low = at[0] | uint32_t{at[1]} << 8 | uint32_t{at[2]} << 16;
  if (bits == 24) return static_cast<int32_t>(low << 8) >> 8;
  return static_cast<int32_t>(low | uint32_t{at[3]} << 24);
}
constexpr void StoreFixed(unsigned char* at, int32_t value, int bits) {
  for (int i = 0; i < bits / 8; ++i) {
    at[i] = static_cast<unsigned char>(static_cast<uint32_t>(value) >> (8 * i));
  }
}

// sum += more, for `hidden` elements at any addresses, which do not overlap.
void AddSum(int bits, int hidden, std::byte* sum, const std::byte* more);

// Chooses a layer's exponent from its contributions in a calibration: the root of their mean
// square, and the largest magnitude. 15 bits lie below the root. In 32 bits, values up to four
// times the largest are not clamped; in 24, up to twice. FailedPrecondition: 24 bits do not hold
// both, because fewer than kLeastBits would lie below the root. InvalidArgument: not finite.
struct ContributionRange {
  double root_mean_square = 0.0;
  double largest = 0.0;
};
inline constexpr int kLeastBits = 8;  // as many as bfloat16 has
Result<int8_t> ChooseExponent(const ContributionRange& range, int bits, int top_k);

}  // namespace janus
