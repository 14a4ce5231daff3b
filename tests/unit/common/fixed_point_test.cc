#include "common/fixed_point.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/contains.h"
#include "tests/support/random.h"

namespace janus {
namespace {

struct Fixed {
  int32_t value = 0;
  bool clamped = false;
  friend bool operator==(const Fixed&, const Fixed&) = default;
};
void PrintTo(const Fixed& fixed, std::ostream* out) {
  *out << fixed.value << (fixed.clamped ? " clamped" : "");
}

Fixed Of(float value, int exponent, int bits = 32, int top_k = 8) {
  Fixed fixed;
  fixed.value = ToFixed(value, PowerOfTwo(-exponent), FixedLimit(bits, top_k), bits, fixed.clamped);
  return fixed;
}

TEST(FixedPoint, RoundsToTheNearestUnitTiesToEven) {
  EXPECT_EQ(Of(0.5f, 0).value, 0);
  EXPECT_EQ(Of(1.5f, 0).value, 2);
  EXPECT_EQ(Of(-2.5f, 0).value, -2);
  EXPECT_EQ(Of(-2.75f, 0).value, -3);
  EXPECT_EQ(Of(0x1.000002p-3f, -3).value, 1);
  EXPECT_EQ(Of(-0.0f, 0).value, 0);
  EXPECT_EQ(Of(8388607.5f / 2, -1).value, 8388608) << "half a unit below 2^23";
  EXPECT_EQ(Of(0x1.fffffep22f, 0).value, 1 << 23) << "a tie";
  EXPECT_EQ(Of(1e-38f, FixedPointSums::kLeastExponent).value, 0);
  Random random(TestSeed());
  for (int i = 0; i < 10'000; ++i) {
    const float value = random.Signed() * std::exp2(static_cast<float>(random.Between(-10, 20)));
    const double want = std::nearbyint(static_cast<double>(value) * 32.0);
    EXPECT_EQ(Of(value, -5), (Fixed{static_cast<int32_t>(want), false})) << value;
  }
}

TEST(FixedPoint, ClampsWhatIsTooLargeAndSaysSo) {
  constexpr int32_t kMost = (1 << 27) - 1;
  EXPECT_EQ(Of(0x1.fffffep26f, 0), (Fixed{134'217'720, false}));
  EXPECT_EQ(Of(0x1p27f, 0), (Fixed{kMost, true}));
  EXPECT_EQ(Of(-0x1p27f, 0), (Fixed{-kMost, true}));
  EXPECT_EQ(Of(-3e38f, -100), (Fixed{-kMost, true})) << "the product is not finite";
  EXPECT_EQ(Of(1'048'575.0f, 0, 24), (Fixed{1'048'575, false}));
  EXPECT_EQ(Of(1'048'576.0f, 0, 24), (Fixed{1'048'575, true}));
}

// So a request whose numbers overflow ends as it does with contributions.
TEST(FixedPoint, WhatIsNotFiniteMakesEverySumNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const int bits : {32, 24}) {
    for (const float value : {infinity, -infinity, std::nanf(""), -std::nanf("")}) {
      const Fixed none = Of(value, -20, bits);
      EXPECT_EQ(none, (Fixed{NotFinite(bits), false}));
      for (const int32_t other : {0, 1, -1, FixedLimit(bits, 8), NotFinite(bits)}) {
        EXPECT_EQ(AddFixed(none.value, other, bits), none.value);
        EXPECT_EQ(AddFixed(other, none.value, bits), none.value);
      }
      EXPECT_TRUE(std::isnan(FromFixed(none.value, 1.0f, bits)));
      unsigned char bytes[4] = {};
      StoreFixed(bytes, none.value, bits);
      EXPECT_EQ(LoadFixed(bytes, bits), none.value);
    }
  }
}

TEST(FixedPoint, SumsAreEqualInEveryTree) {
  Random random(TestSeed());
  for (const int bits : {32, 24}) {
    for (int run = 0; run < 200; ++run) {
      const int terms = random.Between(1, FixedPointSums::kMostTerms);
      const int32_t limit = FixedLimit(bits, terms);
      std::vector<int32_t> parts;
      int64_t want = 0;
      for (int i = 0; i < terms; ++i) {
        parts.push_back(random.Chance(0.3) ? (random.Chance(0.5) ? limit : -limit)
                                           : random.Between(-limit, limit));
        want += parts.back();
      }
      while (parts.size() > 1) {
        const auto a = static_cast<size_t>(random.Between(0, static_cast<int>(parts.size()) - 1));
        std::swap(parts[a], parts.back());
        const int32_t last = parts.back();
        parts.pop_back();
        int32_t& to =
            parts[static_cast<size_t>(random.Between(0, static_cast<int>(parts.size()) - 1))];
        to = AddFixed(to, last, bits);
        unsigned char bytes[4] = {};
        StoreFixed(bytes, to, bits);
        ASSERT_EQ(LoadFixed(bytes, bits), to);
        ASSERT_NE(to, NotFinite(bits));
      }
      EXPECT_EQ(parts[0], want);
    }
  }
}

TEST(FixedPoint, AddsRowsAtAnyAddress) {
  Random random(TestSeed());
  for (const int bits : {32, 24}) {
    const int size = bits / 8;
    for (const int hidden : {1, 5, 64, 131}) {
      const auto bytes = SumBytes(bits, hidden);
      EXPECT_EQ(bytes, static_cast<size_t>(hidden * size));
      std::vector<unsigned char> a(bytes + 2), b(bytes + 3);
      std::vector<int32_t> want;
      for (int h = 0; h < hidden; ++h) {
        const int32_t x = h % 7 == 3 ? NotFinite(bits) : random.Between(-1'000'000, 1'000'000);
        const int32_t y = h % 11 == 4 ? NotFinite(bits) : random.Between(-1'000'000, 1'000'000);
        StoreFixed(&a[static_cast<size_t>(1 + h * size)], x, bits);
        StoreFixed(&b[static_cast<size_t>(2 + h * size)], y, bits);
        want.push_back(AddFixed(x, y, bits));
      }
      a.back() = b.back() = 0xA5;
      AddSum(bits, hidden, reinterpret_cast<std::byte*>(&a[1]),
             reinterpret_cast<const std::byte*>(&b[2]));
      for (int h = 0; h < hidden; ++h) {
        EXPECT_EQ(LoadFixed(&a[static_cast<size_t>(1 + h * size)], bits),
                  want[static_cast<size_t>(h)]);
      }
      EXPECT_EQ(a.front(), 0);
      EXPECT_EQ(a.back(), 0xA5);
    }
  }
}

TEST(FixedPoint, SumsBecomeFloatsWithOneRounding) {
  EXPECT_EQ(FromFixed(3, PowerOfTwo(-2), 32), 0.75f);
  EXPECT_EQ(FromFixed((1 << 24) + 1, 1.0f, 32), 0x1p24f) << "a tie to even";
  EXPECT_EQ(FromFixed(-(1 << 23) + 1, PowerOfTwo(-23), 24), -1.0f + 0x1p-23f);
}

TEST(ChooseExponent, Puts15BitsBelowTheRootAndTheLargestInRange) {
  // Root 1, largest 16: the unit is 2^-15.
  EXPECT_EQ(*ChooseExponent({1.0, 16.0}, 32, 8), -15);
  EXPECT_EQ(*ChooseExponent({1.001, 16.0}, 32, 8), -14);
  // A massive activation: 2^12 times the root. 2^25 units hold it.
  EXPECT_EQ(*ChooseExponent({1.0, 4096.0}, 32, 8), -13);
  EXPECT_EQ(*ChooseExponent({1.0, 16.0}, 24, 8), -15);
  // 2^19 units of 24 bits hold the largest, twice: sums of 8 terms of 20 bits.
  EXPECT_EQ(*ChooseExponent({1.0, 64.0}, 24, 8), -13);
  EXPECT_EQ(*ChooseExponent({1.0, 64.0}, 24, 2), -15);
  EXPECT_EQ(*ChooseExponent({0.0, 0.0}, 32, 8), -15) << "nothing is known";
}

TEST(ChooseExponent, RefusesARangeThat24BitsDoNotHold) {
  EXPECT_EQ(*ChooseExponent({1.0, 2048.0}, 24, 8), -8);
  const Result<int8_t> refused = ChooseExponent({1.0, 4096.0}, 24, 8);
  EXPECT_EQ(refused.status(),
            FailedPrecondition("the largest contribution is 12 powers of two above the root of the "
                               "mean square; 24 bits hold 11; use 32 bits"));
  EXPECT_EQ(ChooseExponent({std::nan(""), 1.0}, 32, 8).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(ValidateSums, SaysWhatIsWrong) {
  EXPECT_TRUE(Validate(FixedPointSums{}, 3, 40).ok());
  EXPECT_TRUE(Validate({32, {1, -100, 100}}, 3, 16).ok());
  const auto wrong = [](const FixedPointSums& sums, int top_k) {
    return Validate(sums, 3, top_k).message();
  };
  EXPECT_EQ(wrong({16, {1, 2, 3}}, 8), "16 bits; want 32 or 24");
  EXPECT_TRUE(Contains(wrong({32, {1, 2}}, 8), "2 exponents; the model has 3 MoE layers"));
  EXPECT_TRUE(Contains(wrong({32, {1, 2, 101}}, 8), "exponent 101 of MoE layer 2"));
  EXPECT_TRUE(Contains(wrong({32, {1, 2, 3}}, 17), "17 experts for a row"));
  EXPECT_FALSE(Validate({0, {1}}, 1, 8).ok());
}

TEST(HashOfSums, DiffersByBitsAndExponents) {
  EXPECT_EQ(HashOf({}), 0u);
  EXPECT_EQ(HashOf({32, {-3, 4}}), HashOf({32, {-3, 4}}));
  EXPECT_NE(HashOf({32, {-3, 4}}), HashOf({24, {-3, 4}}));
  EXPECT_NE(HashOf({32, {-3, 4}}), HashOf({32, {4, -3}}));
}

}  // namespace
}  // namespace janus
