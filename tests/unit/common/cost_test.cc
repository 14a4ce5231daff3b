#include "common/cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace janus {
namespace {

constexpr ExpertShape kShape = {.hidden = 1000, .intermediate = 2000, .bytes_per_weight = 1};
// Weights 6 MB in 6 us; 12 M operations a row, 12 ns each.
constexpr ExpertCost kCost = {.fixed_seconds = 20e-6,
                              .bytes_per_second = 1e12,
                              .operations_per_second = 1e15,
                              .idle_expert_seconds = 0.5e-6,
                              .sharpness = 2};

TEST(SoftMaximum, AddsWithoutOverlapAndTakesTheLargerWithFullOverlap) {
  EXPECT_DOUBLE_EQ(SoftMaximum(3, 4, 1), 7);
  EXPECT_DOUBLE_EQ(SoftMaximum(3, 4, 2), 5);
  EXPECT_NEAR(SoftMaximum(3, 4, 200), 4, 1e-9);
  EXPECT_EQ(SoftMaximum(0, 0, 2), 0);
  EXPECT_EQ(SoftMaximum(0, 4, 2), 4);
}

TEST(SoftMaximum, KeepsTinyAndHugeTimes) {
  EXPECT_NEAR(SoftMaximum(3e-200, 4e-200, 2), 5e-200, 1e-210);
  EXPECT_NEAR(SoftMaximum(3e200, 4e200, 2), 5e200, 1e190);
}

TEST(ExpertRound, CostsOneReadPerActivatedExpertInDecode) {
  const double two = ExpertRoundSeconds(kCost, kShape, std::vector<double>{1, 1, 0, 0});
  const double three = ExpertRoundSeconds(kCost, kShape, std::vector<double>{1, 1, 1, 0});
  EXPECT_NEAR(two, 20e-6 + 2 * 6e-6 + 2 * 0.5e-6, 1e-10);
  EXPECT_NEAR(three - two, 6e-6 - 0.5e-6, 1e-10);
  // Further rows of an expert are nearly free while its read dominates.
  EXPECT_NEAR(ExpertRoundSeconds(kCost, kShape, std::vector<double>{8}) -
                  ExpertRoundSeconds(kCost, kShape, std::vector<double>{1}),
              0, 0.01e-6);
}

TEST(ExpertRound, FollowsRowsInTheTokenRegime) {
  const double rows = 100 * CrossoverRows(kCost, kShape);
  EXPECT_NEAR(OneExpertSeconds(kCost, kShape, 2 * rows) / OneExpertSeconds(kCost, kShape, rows), 2,
              1e-3);
}

TEST(ExpertRound, ReadsAsLongAsItComputesAtTheCrossover) {
  EXPECT_DOUBLE_EQ(CrossoverRows(kCost, kShape), 500);
  EXPECT_NEAR(OneExpertSeconds(kCost, kShape, 500), 6e-6 * std::sqrt(2), 1e-12);
}

TEST(ExpertRound, EvenlySpreadRowsAreTheListOfThem) {
  EXPECT_NEAR(ExpertRoundSeconds(kCost, kShape, 3, 5, 600),
              ExpertRoundSeconds(kCost, kShape, std::vector<double>{200, 200, 200, 0, 0}), 1e-15);
  EXPECT_NEAR(ExpertRoundSeconds(kCost, kShape, 0, 5, 0), 20e-6 + 5 * 0.5e-6, 1e-15);
}

TEST(ExpertRound, TensorParallelismDividesReadAndWork) {
  ExpertShape half = kShape;
  half.tensor_parallel = 2;
  EXPECT_DOUBLE_EQ(OneExpertSeconds(kCost, half, 900), OneExpertSeconds(kCost, kShape, 900) / 2);
}

constexpr GroupedAttentionCost kGrouped = {.fixed_seconds = 10e-6,
                                           .bytes_per_second = 1e12,
                                           .cached_bytes_per_second = 1e13,
                                           .cache_bytes = 40e6,
                                           .sharpness = 2};

TEST(GroupedAttention, ReadsEveryKeyOnce) {
  const GroupedShape shape = {.heads = 32, .kv_heads = 8, .head_dim = 128};
  EXPECT_DOUBLE_EQ(shape.KvBytesPerKey(), 4096);
  EXPECT_NEAR(GroupedAttentionSeconds(kGrouped, shape, 10, 1000, KvCacheState::kCold),
              10e-6 + 10 * 1000 * 4096 / 1e12, 1e-12);
}

TEST(GroupedAttention, SeesAtMostItsWindow) {
  GroupedShape shape = {.heads = 32, .kv_heads = 8, .head_dim = 128};
  const double at_window = GroupedAttentionSeconds(kGrouped, shape, 4, 128, KvCacheState::kCold);
  shape.window = 128;
  EXPECT_EQ(GroupedAttentionSeconds(kGrouped, shape, 4, 1e5, KvCacheState::kCold), at_window);
}

TEST(GroupedAttention, AWarmCacheHelpsOnlyWhatFits) {
  const GroupedShape shape = {.heads = 32, .kv_heads = 8, .head_dim = 128};
  const auto read = [&](double keys, KvCacheState state) {
    return GroupedAttentionSeconds(kGrouped, shape, 1, keys, state) - 10e-6;
  };
  EXPECT_LT(read(1000, KvCacheState::kWarm), 0.11 * read(1000, KvCacheState::kCold));
  EXPECT_GT(read(1e6, KvCacheState::kWarm), 0.99 * read(1e6, KvCacheState::kCold));
}

TEST(LatentAttention, GrowsWithBatchContextAndHeads) {
  const LatentAttentionCost cost = {29e-6, 0.6e-6, 80e-9, 3.7e-9, 0.4e-9, 1.6e-12, 1.7e-6, 1.5};
  const double base = LatentAttentionSeconds(cost, 64, 64, 2048);
  EXPECT_GT(LatentAttentionSeconds(cost, 128, 64, 2048), base);
  EXPECT_GT(LatentAttentionSeconds(cost, 64, 128, 2048), base);
  EXPECT_GT(LatentAttentionSeconds(cost, 64, 64, 4096), base);
}

TEST(Exchange, OneNodeUsesNoNetwork) {
  const ExchangeCost cost = {10e-6, 20e-6, 0, 1e12, 1e10, 0, 1};
  EXPECT_NEAR(ExchangeSeconds(cost, {.rows = 1, .bytes = 1e6, .nodes = 1}), 10e-6 + 1e-6, 1e-12);
  EXPECT_NEAR(ExchangeSeconds(cost, {.rows = 1, .bytes = 1e6, .nodes = 2}),
              10e-6 + 10e-6 + 0.5e-6 + 50e-6, 1e-12);
}

TEST(Collective, RunsTheFasterProtocol) {
  const CollectiveCost cost = {{4e-6, 1e-6, 1e11}, {20e-6, 0, 3e11}};
  EXPECT_NEAR(CollectiveSeconds(cost, 8, 8), 12e-6, 1e-9);
  EXPECT_NEAR(CollectiveSeconds(cost, 8, 8e9), 20e-6 + 7e9 / 3e11, 1e-9);
}

}  // namespace
}  // namespace janus
