#include "cli/load/histogram.h"

#include <gtest/gtest.h>

#include <cmath>

namespace janus::cli {
namespace {

TEST(Histogram, GivesPercentilesWithinOnePercent) {
  Histogram histogram;
  for (int i = 1; i <= 1000; ++i) histogram.Add(i * 1e-3);
  EXPECT_EQ(histogram.count(), 1000);
  EXPECT_NEAR(histogram.mean(), 0.5005, 1e-9);
  for (const double percent : {1.0, 50.0, 90.0, 99.0, 100.0}) {
    EXPECT_NEAR(histogram.Percentile(percent), percent * 1e-2, percent * 1e-4) << percent;
  }
}

TEST(Histogram, IsZeroWhenEmptyAndBoundedOutside) {
  Histogram histogram;
  EXPECT_EQ(histogram.Percentile(99), 0);
  EXPECT_EQ(histogram.mean(), 0);
  histogram.Add(-1);
  histogram.Add(1e9);
  histogram.Add(std::nan(""));
  EXPECT_EQ(histogram.count(), 2);
  EXPECT_NEAR(histogram.Percentile(50), 1e-6, 1e-8);
  EXPECT_NEAR(histogram.Percentile(100), 1e5, 1e3);
}

TEST(Histogram, MergesToTheHistogramOfAll) {
  Histogram all, a, b;
  for (int i = 1; i <= 100; ++i) {
    all.Add(i);
    (i % 2 ? a : b).Add(i);
  }
  a.Merge(b);
  EXPECT_EQ(a.count(), all.count());
  EXPECT_EQ(a.Percentile(50), all.Percentile(50));
  EXPECT_EQ(a.Percentile(99), all.Percentile(99));
}

}  // namespace
}  // namespace janus::cli
