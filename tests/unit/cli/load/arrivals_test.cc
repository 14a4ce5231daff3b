#include "cli/load/arrivals.h"

#include <gtest/gtest.h>

#include <cmath>

namespace janus::cli {
namespace {

TEST(PoissonArrivals, HasTheRateAndTheSpreadOfAPoissonProcess) {
  const auto arrivals = PoissonArrivals(20, 20'000, 128, 64, 7);
  ASSERT_EQ(arrivals.size(), 20'000u);
  EXPECT_EQ(arrivals[0], (Arrival{0, 128, 64}));
  double sum = 0, squares = 0;
  for (size_t i = 1; i < arrivals.size(); ++i) {
    const double gap = arrivals[i].seconds - arrivals[i - 1].seconds;
    ASSERT_GE(gap, 0);
    sum += gap;
    squares += gap * gap;
  }
  const double count = static_cast<double>(arrivals.size() - 1);
  const double mean = sum / count;
  EXPECT_NEAR(mean, 0.05, 0.002);
  // Exponential gaps: the standard deviation is the mean.
  EXPECT_NEAR(std::sqrt(squares / count - mean * mean) / mean, 1.0, 0.05);
}

TEST(PoissonArrivals, RepeatsWithTheSeed) {
  EXPECT_EQ(PoissonArrivals(5, 50, 1, 1, 3), PoissonArrivals(5, 50, 1, 1, 3));
  EXPECT_NE(PoissonArrivals(5, 50, 1, 1, 3), PoissonArrivals(5, 50, 1, 1, 4));
}

}  // namespace
}  // namespace janus::cli
