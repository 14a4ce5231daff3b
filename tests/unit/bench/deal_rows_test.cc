#include "bench/gpu/deal_rows.h"

#include <gtest/gtest.h>

#include <numeric>

namespace janus::bench {
namespace {

TEST(DealRows, GivesEachExpertOneAndAllRows) {
  for (const double deviation : {0.0, 0.02, 0.1, 0.25, 3.0}) {
    for (const int rows : {32, 33, 64, 1000, 4096}) {
      const std::vector<int> of = DealRows(32, rows, deviation);
      ASSERT_EQ(of.size(), 32u);
      EXPECT_EQ(std::accumulate(of.begin(), of.end(), 0), rows) << deviation;
      EXPECT_GE(*std::min_element(of.begin(), of.end()), 1) << deviation;
    }
  }
  EXPECT_EQ(DealRows(1, 64, 0.1), std::vector<int>{64});
}

TEST(DealRows, WithoutDeviationIsEven) {
  EXPECT_EQ(DealRows(4, 12, 0.0), (std::vector<int>{3, 3, 3, 3}));
  for (const int rows : DealRows(32, 1000, 0.0)) {
    EXPECT_GE(rows, 31);
    EXPECT_LE(rows, 32);
  }
}

// 4,064 rows beside one each, 32 experts, deviation 0.1 of their number: the normal density at half
// an expert from the middle, 1 / (3.2 sqrt(2 pi)) * exp(-(0.5 / 3.2)^2 / 2).
TEST(DealRows, SkewIsThatOfTheNormalDistribution) {
  const std::vector<int> of = DealRows(32, 4096, 0.1);
  EXPECT_NEAR(of[15], 1 + 4064 * 0.12316, 1.5);
  EXPECT_NEAR(of[15], of[16], 1);
  EXPECT_EQ(of[0], 1);
  EXPECT_EQ(of[31], 1);
  const std::vector<int> wide = DealRows(32, 4096, 0.25);
  EXPECT_LT(wide[15], of[15]);
  EXPECT_GT(wide[0], of[0]);
}

}  // namespace
}  // namespace janus::bench
