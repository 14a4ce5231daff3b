#include "common/latency_pairs.h"

#include <gtest/gtest.h>

#include <optional>

namespace janus {
namespace {

constexpr std::optional<Seconds> kNone;

TEST(LatencyPairs, OnlyRequestsThatKeepBothTargetsAreWithin) {
  LatencyPairs pairs;
  for (int i = 0; i < 70; ++i) pairs.Add(Seconds(0.2), Seconds(0.02));
  for (int i = 0; i < 20; ++i) pairs.Add(Seconds(3.0), Seconds(0.02));
  for (int i = 0; i < 10; ++i) pairs.Add(Seconds(0.2), Seconds(0.3));
  EXPECT_EQ(pairs.total(), 100U);
  EXPECT_DOUBLE_EQ(pairs.Within(Seconds(1), Seconds(0.1)), 70);
  EXPECT_DOUBLE_EQ(pairs.Within(kNone, Seconds(0.1)), 90);
  EXPECT_DOUBLE_EQ(pairs.Within(Seconds(1), kNone), 80);
  EXPECT_DOUBLE_EQ(pairs.Within(Seconds(0.1), Seconds(0.01)), 0);
}

TEST(LatencyPairs, ATargetInsideABucketIsKeptByItsShareOfTheBucket) {
  LatencyPairs pairs;
  const int bucket = LatencyCounts::BucketOf(Seconds(0.05));
  const Seconds least = LatencyCounts::Most(bucket - 1);
  const Seconds most = LatencyCounts::Most(bucket);
  for (int i = 0; i < 100; ++i) pairs.Add(Seconds(0.2), Seconds(0.05));
  EXPECT_DOUBLE_EQ(pairs.Within(Seconds(1), least), 0);
  EXPECT_NEAR(pairs.Within(Seconds(1), least + (most - least) * 0.25), 25, 1e-6);
  EXPECT_DOUBLE_EQ(pairs.Within(Seconds(1), most), 100);
}

TEST(LatencyPairs, AnAnswerOfOneTokenKeepsEveryTargetForTheOthers) {
  LatencyPairs pairs;
  pairs.Add(Seconds(0.2), std::nullopt);
  EXPECT_DOUBLE_EQ(pairs.Within(Seconds(1), Seconds(1e-6)), 1);
  EXPECT_EQ(pairs.Tpot(), LatencyCounts());
  EXPECT_NEAR(pairs.Ttft().Percentile(1)->count(), 0.2, 0.02);
}

TEST(LatencyPairs, BeyondTheLastBoundNoTargetIsKept) {
  LatencyPairs pairs;
  pairs.Add(Seconds(1e9), Seconds(1e9));
  EXPECT_DOUBLE_EQ(pairs.Within(Seconds(1e8), kNone), 0);
}

TEST(LatencyPairs, SinceIsTheDifferenceAndNothingWhereCountsWentBack) {
  LatencyPairs before;
  before.Add(Seconds(0.2), Seconds(0.02));
  LatencyPairs now = before;
  now.Add(Seconds(0.2), Seconds(0.02));
  now.Add(Seconds(3), std::nullopt);
  ASSERT_TRUE(now.Since(before));
  EXPECT_EQ(now.Since(before)->total(), 2U);
  EXPECT_EQ(now.Since(now), LatencyPairs());
  EXPECT_FALSE(before.Since(now));
}

TEST(LatencyPairs, AFullTableStaysBoundedAndNeverFlatters) {
  LatencyPairs pairs;
  uint64_t added = 0;
  for (int round = 0; round < 2; ++round) {
    for (int a = 0; a < LatencyCounts::kBuckets - 1; ++a) {
      for (int b = 0; b < LatencyCounts::kBuckets - 1; ++b) {
        pairs.Add(LatencyCounts::Most(a), LatencyCounts::Most(b));
        ++added;
      }
      pairs.Add(LatencyCounts::Most(a), std::nullopt);
      ++added;
    }
  }
  EXPECT_LE(pairs.counts().size(), LatencyPairs::kMost);
  EXPECT_EQ(pairs.total(), added);
  // Of the times that were added, so many keep both.
  const int at = 97;
  const Seconds target = LatencyCounts::Most(at);
  const double kept = 2.0 * (at + 1) * (at + 2);
  EXPECT_LE(pairs.Within(target, target), kept);
  EXPECT_GT(pairs.Within(target, target), kept * 0.9);
}

TEST(LatencyPairs, APairThatCannotBeIsRefused) {
  LatencyPairs pairs;
  EXPECT_TRUE(pairs.Put({159, LatencyPairs::kNoTpot}, 3));
  EXPECT_FALSE(pairs.Put({160, 0}, 1));
  EXPECT_FALSE(pairs.Put({0, 161}, 1));
  EXPECT_FALSE(pairs.Put({-1, 0}, 1));
  EXPECT_EQ(pairs.total(), 3U);
}

}  // namespace
}  // namespace janus
