#include "common/latency_counts.h"

#include <gtest/gtest.h>

namespace janus {
namespace {

TEST(LatencyCounts, APercentileIsWithinABucketOfTheSample) {
  for (const double seconds : {0.0015, 0.02, 0.1, 1.0, 60.0, 600.0}) {
    LatencyCounts counts;
    for (int i = 0; i < 100; ++i) counts.Add(Seconds(seconds));
    for (const double share : {0.01, 0.5, 0.95, 1.0}) {
      ASSERT_TRUE(counts.Percentile(share));
      EXPECT_NEAR(counts.Percentile(share)->count(), seconds, seconds * 0.1) << share;
    }
  }
}

TEST(LatencyCounts, APercentileIsOverWhoIsSlowAndWhoIsFast) {
  LatencyCounts counts;
  for (int i = 0; i < 90; ++i) counts.Add(Seconds(0.02));
  for (int i = 0; i < 10; ++i) counts.Add(Seconds(0.4));
  EXPECT_NEAR(counts.Percentile(0.5)->count(), 0.02, 0.002);
  EXPECT_NEAR(counts.Percentile(0.95)->count(), 0.4, 0.04);
}

TEST(LatencyCounts, WhatIsBeyondAllBucketsIsInTheOuterOnes) {
  LatencyCounts counts;
  counts.Add(Seconds(0));
  EXPECT_LE(counts.Percentile(1)->count(), 0.001);
  EXPECT_EQ(counts.counts.front(), 1u);
  counts = {};
  counts.Add(Seconds(1e9));
  EXPECT_GT(counts.Percentile(1)->count(), 800);
  EXPECT_EQ(counts.counts.back(), 1u);
  EXPECT_FALSE(LatencyCounts().Percentile(0.5));
}

TEST(LatencyCounts, PackedTheyAreTheSame) {
  EXPECT_EQ(PackedLatencyCounts().Unpack(), LatencyCounts());
  EXPECT_EQ(PackedLatencyCounts(LatencyCounts()).Unpack(), LatencyCounts());
  for (const auto& times : std::vector<std::vector<double>>{
           {0}, {1e9}, {0, 1e9}, {0.02}, {0.02, 0.02, 0.5}, {0.3, 0.01, 7}}) {
    LatencyCounts counts;
    for (const double time : times) counts.Add(Seconds(time));
    EXPECT_EQ(PackedLatencyCounts(counts).Unpack(), counts);
  }
}

TEST(LatencyCounts, OfSeveralAddUpAndTheOlderOnesAreTakenAway) {
  LatencyCounts a, b;
  a.Add(Seconds(0.02));
  b.Add(Seconds(0.02));
  b.Add(Seconds(3));
  LatencyCounts sum = a;
  sum += b;
  EXPECT_EQ(sum.Since(a), b);
  EXPECT_EQ(sum.Since(sum), LatencyCounts());
  EXPECT_FALSE(a.Since(sum)) << "somebody who counted has gone";
}

}  // namespace
}  // namespace janus
