#include "common/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace janus {
namespace {

using Words = std::array<uint32_t, 4>;

// The known answers of the authors' distribution (Random123, kat_vectors, philox4x32 10).
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(Philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(
      Philox4x32({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
      (Words{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Philox, UniformNumbersStayBelowOneAndDifferBySeedAndPosition) {
  std::set<double> seen;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (uint64_t position = 0; position < 50; ++position) {
      const double u = UniformAt(seed, position);
      EXPECT_GE(u, 0.0);
      EXPECT_LT(u, 1.0);
      seen.insert(u);
    }
  }
  EXPECT_EQ(seen.size(), 2500u);
}

TEST(Philox, UniformNumbersUseAllBitsOfSeedAndPosition) {
  EXPECT_NE(UniformAt(uint64_t{1} << 63, 0), UniformAt(0, 0));
  EXPECT_NE(UniformAt(0, uint64_t{1} << 40), UniformAt(0, 0));
}

TEST(Philox, UniformNumbersAverageOneHalf) {
  double sum = 0.0;
  constexpr int kCount = 100000;
  for (uint64_t i = 0; i < kCount; ++i) sum += UniformAt(7, i);
  EXPECT_NEAR(sum / kCount, 0.5, 0.005);  // five standard deviations
}

}  // namespace
}  // namespace janus
