#include "common/fixed_point.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/fingerprint.h"

namespace janus {
namespace {

// The smallest e with 2^e >= value. Without contributions nothing is known: 0 counts as 1.
int CeilLog2(double value) {
  if (!(value > 0.0)) return 0;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // in [0.5, 1)
  return fraction == 0.5 ? exponent - 1 : exponent;
}

void AddSum32(int hidden, std::byte* sum, const std::byte* more) {
  // In pieces on the stack, so that the compiler turns the loop into vectors at any alignment.
  constexpr int kPiece = 64;
  for (int h = 0; h < hidden; h += kPiece) {
    const int count = std::min(kPiece, hidden - h);
    const auto bytes = static_cast<size_t>(count) * sizeof(int32_t);
    const size_t at = static_cast<size_t>(h) * sizeof(int32_t);
    int32_t a[kPiece], b[kPiece];
    std::memcpy(a, sum + at, bytes);
    std::memcpy(b, more + at, bytes);
    for (int i = 0; i < count; ++i) a[i] = AddFixed(a[i], b[i], 32);
    std::memcpy(sum + at, a, bytes);
  }
}

void AddSum24(int hidden, std::byte* sum, const std::byte* more) {
  auto* const to = reinterpret_cast<unsigned char*>(sum);
  const auto* const from = reinterpret_cast<const unsigned char*>(more);
  for (int h = 0; h < hidden; ++h) {
    StoreFixed(to + 3 * h, AddFixed(LoadFixed(to + 3 * h, 24), LoadFixed(from + 3 * h, 24), 24),
               24);
  }
}

}  // namespace

Status Validate(const FixedPointSums& sums, int moe_layers, int top_k) {
  if (!sums.on()) {
    if (sums.exponents.empty()) return OkStatus();
    return InvalidArgument("exponents without the sum rule FixedPoint");
  }
  if (sums.bits != 32 && sums.bits != 24) {
    return InvalidArgument(std::to_string(sums.bits) + " bits; want 32 or 24");
  }
  if (top_k > FixedPointSums::kMostTerms) {
    return InvalidArgument("the model adds " + std::to_string(top_k) +
                           " experts for a row; FixedPoint adds at most " +
                           std::to_string(FixedPointSums::kMostTerms) + "; use Contributions");
  }
  if (sums.exponents.size() != static_cast<size_t>(moe_layers)) {
    return InvalidArgument(std::to_string(sums.exponents.size()) + " exponents; the model has " +
                           std::to_string(moe_layers) +
                           " MoE layers; janusctl calibrate prints theirs");
  }
  for (size_t layer = 0; layer < sums.exponents.size(); ++layer) {
    const int exponent = sums.exponent(static_cast<int>(layer));
    if (exponent >= FixedPointSums::kLeastExponent && exponent <= FixedPointSums::kMostExponent) {
      continue;
    }
    return InvalidArgument("exponent " + std::to_string(exponent) + " of MoE layer " +
                           std::to_string(layer) + "; want " +
                           std::to_string(FixedPointSums::kLeastExponent) + " to " +
                           std::to_string(FixedPointSums::kMostExponent));
  }
  return OkStatus();
}

uint64_t HashOf(const FixedPointSums& sums) {
  if (!sums.on()) return 0;
  Fingerprint hash;
  hash.Mix(static_cast<uint64_t>(sums.bits));
  for (const int8_t exponent : sums.exponents) hash.Mix(static_cast<uint64_t>(exponent + 128));
  return hash.value();
}

void AddSum(int bits, int hidden, std::byte* sum, const std::byte* more) {
  bits == 24 ? AddSum24(hidden, sum, more) : AddSum32(hidden, sum, more);
}

Result<int8_t> ChooseExponent(const ContributionRange& range, int bits, int top_k) {
  if (!std::isfinite(range.root_mean_square) || !std::isfinite(range.largest)) {
    return InvalidArgument("contributions are not finite");
  }
  constexpr int kBitsBelow = 15;
  const int root = CeilLog2(range.root_mean_square);
  const int largest = CeilLog2(range.largest);
  // 2^27 holds 2^25 four times. Of 24 bits, some are for the sum of top_k.
  const auto limit = static_cast<uint32_t>(FixedLimit(bits, top_k));
  const int held = bits == 24 ? static_cast<int>(std::bit_width(limit + 1)) - 2 : 25;
  const int exponent = std::max(root - kBitsBelow, largest - held);
  if (bits == 24 && range.largest > 0.0 && exponent > root - kLeastBits) {
    return FailedPrecondition("the largest contribution is " + std::to_string(largest - root) +
                              " powers of two above the root of the mean square; 24 bits hold " +
                              std::to_string(held - kLeastBits) + "; use 32 bits");
  }
  return static_cast<int8_t>(
      std::clamp(exponent, FixedPointSums::kLeastExponent, FixedPointSums::kMostExponent));
}

}  // namespace janus
