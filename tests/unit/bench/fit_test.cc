#include "bench/gpu/fit.h"

#include <gtest/gtest.h>

namespace janus::bench {
namespace {

using Points = std::vector<std::pair<double, double>>;

TEST(FitLine, FindsALineThatGoesThroughAllPoints) {
  const Line line = FitLine(Points{{1, 33.2}, {2, 44.4}, {8, 111.6}, {32, 380.4}});
  EXPECT_NEAR(line.a, 22.0, 1e-9);
  EXPECT_NEAR(line.b, 11.2, 1e-9);
}

// 17 us, and 4,800 bytes per us. Attention reads up to 34 GB.
TEST(FitLine, BytesLeaveDigitsForTheRest) {
  Points points;
  for (double bytes = 1e6; bytes < 4e10; bytes *= 3) points.emplace_back(bytes, 17 + bytes / 4800);
  const Line line = FitLine(points);
  EXPECT_NEAR(line.a, 17.0, 1e-6);
  EXPECT_NEAR(1.0 / line.b, 4800.0, 1e-6);
}

// The longest two are 5 % off: equal weights would turn the 8 us into 11.2.
TEST(FitLine, WhatIsOffByAShareOfItselfLeavesA) {
  const Points points{{1, 18}, {2, 28}, {4, 48}, {8, 88}, {16, 168 * 1.05}, {32, 328 * 0.95}};
  EXPECT_NEAR(FitLine(points).a, 8.0, 0.6);
  EXPECT_NEAR(FitLine(points).b, 10.0, 0.3);
}

// Two points at x = 2: the lower one weighs four times as much as the higher.
TEST(FitLine, WeighsByRelativeDifferences) {
  const Line line = FitLine(Points{{1, 1}, {2, 1}, {2, 2}});
  EXPECT_NEAR(line.a + 2 * line.b, 1.2, 1e-12);
  EXPECT_NEAR(line.a + line.b, 1.0, 1e-12);
}

TEST(FitLine, WhatWasNotMeasuredIsLeftOut) {
  const Line whole = FitLine(Points{{1, 18}, {2, 28}, {4, 48}});
  const Line without = FitLine(Points{{1, 18}, {8, NAN}, {2, 28}, {4, 48}});
  EXPECT_EQ(without.a, whole.a);
  EXPECT_EQ(without.b, whole.b);
  EXPECT_TRUE(std::isnan(FitLine(Points{{1, 18}, {2, NAN}}).b)) << "one point has no line";
}

}  // namespace
}  // namespace janus::bench
