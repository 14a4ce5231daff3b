#include "controllers/timed/timed_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "controllers/plan/performance.h"
#include "tests/support/contains.h"
#include "tests/support/random.h"

namespace janus::controllers {
namespace {

constexpr ServedShape kDemo = {4, 8, 2};
constexpr ServedShape kLikeDeepSeek = {58, 256, 8};

TimedModel Make(const TimedDevice& device, const ServedShape& served) {
  Result<TimedModel> made = TimedModel::Make(device, served);
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  return *std::move(made);
}

void ExpectRefused(const TimedDevice& device, const ServedShape& served,
                   std::initializer_list<const char*> parts) {
  const Result<TimedModel> made = TimedModel::Make(device, served);
  ASSERT_FALSE(made.ok());
  for (const char* part : parts) EXPECT_TRUE(Contains(made.status().message(), part));
}

TEST(TimedModelTest, AServedModelOfTheNamedShapeHasExactlyThePlansTerms) {
  const TimedModel timed = Make({"H200", "deepseek-v3"}, kLikeDeepSeek);
  const Setting& setting = timed.setting();
  const AttentionRows rows = {.decode = 30, .context = 900, .prompt = 100, .prompt_keys = 50};
  EXPECT_DOUBLE_EQ(timed.AttentionSeconds(rows), AttentionSeconds(setting, 1, rows));
  EXPECT_DOUBLE_EQ(timed.SharedSeconds(130), SharedSeconds(setting, 1, 130));
  EXPECT_DOUBLE_EQ(timed.DenseSeconds(rows), DenseStepSeconds(setting, 1, rows));
  Configuration how;
  how.m = 2;
  how.n = 8;
  const ExchangeTimes want = TimesOfExchange(setting, how, 260);
  EXPECT_DOUBLE_EQ(timed.ExchangeSeconds(2, 8, 260).out, want.out);
  EXPECT_DOUBLE_EQ(timed.ExchangeSeconds(2, 8, 260).back, want.back);
  const std::vector<int> slots = {3, 0, 700, 1, 0, 9};
  const std::vector<double> as_plans(slots.begin(), slots.end());
  EXPECT_NEAR(timed.ExpertSeconds(slots, 700),
              ExpertRoundSeconds(setting.experts.experts, {7168, 2048, 1, 1}, as_plans), 1e-12);
  how.n = 256;
  EXPECT_EQ(timed.slots(), SlotsPerInstance(setting, how));
  EXPECT_EQ(timed.kv_tokens(), static_cast<int64_t>(KvTokensOfOne(setting, how)));
}

TEST(TimedModelTest, ARowStandsForAsManyRowsAsTheScaleAndALayerForItsShareOfLayers) {
  const TimedModel timed = Make({"H200", "deepseek-v3", 64, 1}, kDemo);
  const Setting& setting = timed.setting();
  const double layers = 58.0 / 4;
  const AttentionRows one = {.decode = 2, .context = 900, .prompt = 3, .prompt_keys = 50};
  const AttentionRows many = {.decode = 128, .context = 900, .prompt = 192, .prompt_keys = 50};
  EXPECT_NEAR(timed.AttentionSeconds(one), layers * AttentionSeconds(setting, 1, many), 1e-12);
  EXPECT_NEAR(timed.SharedSeconds(5), layers * SharedSeconds(setting, 1, 320), 1e-12);
  EXPECT_DOUBLE_EQ(timed.DenseSeconds(one), DenseStepSeconds(setting, 1, many));
  Configuration how;
  how.n = 8;
  EXPECT_NEAR(timed.ExchangeSeconds(1, 8, 5).out, layers * TimesOfExchange(setting, how, 320).out,
              1e-12);
}

TEST(TimedModelTest, AnActivatedExpertStandsForAsManyAsItsRowsWouldActivate) {
  const TimedModel timed = Make({"H200", "deepseek-v3"}, kDemo);
  const double layers = 58.0 / 4;
  EXPECT_DOUBLE_EQ(timed.experts_for_one(), 32);
  const ExpertCost& cost = timed.setting().experts.experts;
  const ExpertShape shape = {7168, 2048, 1, 1};
  // A row chooses 2 of the served model and 8 of DeepSeek-V3, so each of its choices stands for 4.
  EXPECT_NEAR(timed.ExpertSeconds(std::vector<int>{1}, 1),
              layers * ExpertRoundSeconds(cost, shape, 4, 32, 4), 1e-12);
  EXPECT_NEAR(timed.ExpertSeconds(std::vector<int>{1, 1}, 1),
              layers * ExpertRoundSeconds(cost, shape, 8, 64, 8), 1e-12);
  // Many rows activate all.
  EXPECT_NEAR(timed.ExpertSeconds(std::vector<int>{4000}, 16'000),
              layers * ExpertRoundSeconds(cost, shape, 32, 32, 16'000), 1e-9);
  // A second activated expert is read too; an idle one costs less.
  const double both = timed.ExpertSeconds(std::vector<int>{1, 1}, 1);
  const double idle = timed.ExpertSeconds(std::vector<int>{1, 0}, 1);
  EXPECT_GT(both, idle);
  EXPECT_GT(idle, timed.ExpertSeconds(std::vector<int>{1}, 1));
}

// One row that stands for 16 chooses two served experts, and 16 rows choose many more of 256.
TEST(TimedModelTest, RowsThatStandForManyActivateWhatManyRowsDo) {
  const TimedModel timed = Make({"H200", "deepseek-v3", 16, 1}, {58, 32, 4});
  const ExpertCost& cost = timed.setting().experts.experts;
  const ExpertShape shape = {7168, 2048, 1, 1};
  for (const int rows : {1, 3, 20}) {
    // Uniform routing in a round, and an instance with all experts.
    const double chosen = 32 * (1 - std::pow(1 - 4.0 / 32, rows));
    const double named = 256 * (1 - std::pow(1 - 8.0 / 256, 16 * rows));
    double least = 1e9, most = 0;
    // Between the two nearest numbers of served experts that the rows can have chosen.
    for (const double count : {std::floor(chosen), std::ceil(chosen)}) {
      std::vector<int> slots(32);
      const int all = 4 * rows;
      for (int at = 0; at < all; ++at) ++slots[static_cast<size_t>(at % static_cast<int>(count))];
      const double seconds = timed.ExpertSeconds(slots, rows);
      least = std::min(least, seconds);
      most = std::max(most, seconds);
    }
    const double want = ExpertRoundSeconds(cost, shape, named, 256, 8.0 * 16 * rows);
    EXPECT_GT(want, 0.97 * least) << rows;
    EXPECT_LT(want, 1.03 * most) << rows;
  }
  // Never more than an instance holds.
  EXPECT_NEAR(timed.ExpertSeconds(std::vector<int>{1}, 1),
              ExpertRoundSeconds(cost, shape, 8, 8, 32), 1e-12);
}

// Each served expert stands for five named ones and has two replicas. What the busiest of many
// rounds takes is what the plan says. Three rows choose too few to share them out evenly.
TEST(TimedModelTest, NamedExpertsAreSharedOutOverTheReplicasOfTheServedOnes) {
  constexpr int kExperts = 32, kTopK = 4, kInstances = 8, kScale = 16;
  const TimedModel timed = Make({"H200", "deepseek-v2", kScale, 1}, {59, kExperts, kTopK});
  Placement placement;
  placement.layers = 1;
  placement.slots_of_instance.assign(kInstances, 8);
  // Instance i has its own experts first, and then those of another instance each time.
  for (int i = 0; i < kInstances; ++i) {
    for (int slot = 0; slot < 4; ++slot) placement.expert_of.push_back(4 * i + slot);
    for (int slot = 0; slot < 4; ++slot) {
      placement.expert_of.push_back(4 * ((i + slot + 1) % kInstances) + slot);
    }
  }
  ASSERT_TRUE(Validate(placement, 1, kExperts).ok());
  std::vector<ReplicaShares> shares;
  for (int i = 0; i < kInstances; ++i) {
    shares.emplace_back(LayerPlacement::Of(placement, 0, kExperts), i);
  }
  Configuration how;
  how.n = kInstances;
  how.slots = 40;
  std::mt19937 random(MixSeed(TestSeed(), 11));
  std::vector<int> order(kExperts);
  std::iota(order.begin(), order.end(), 0);
  for (const int rows : {3, 7, 20}) {
    double whole = 0, shared = 0;
    constexpr int kRounds = 100;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<int> chosen(kExperts);
      for (int row = 0; row < rows; ++row) {
        std::ranges::shuffle(order, random);
        for (int k = 0; k < kTopK; ++k) ++chosen[static_cast<size_t>(order[k])];
      }
      double busiest = 0;
      for (ReplicaShares& one : shares) {
        busiest = std::max(busiest, timed.ExpertSeconds(one, chosen, rows));
      }
      shared += busiest / kRounds;
      whole += timed.ExpertSeconds(chosen, rows) / kRounds;
    }
    const double plan = 1.0 * timed.setting().model.layers / 59 *
                        ExpertSeconds(timed.setting(), how, 1.0 * rows * kScale, nullptr);
    EXPECT_NEAR(shared / plan, 1, rows == 3 ? 0.15 : 0.06) << rows;
    EXPECT_GT(whole, 2 * shared) << "an instance with all of them";
  }
}

// Two instances with one half of the experts each, and all rows choose all of them.
TEST(TimedModelTest, AnInstanceReadsHalfAnExpertMoreThanItsShare) {
  const TimedModel timed = Make({"H200", "deepseek-v2", 16, 1}, {59, 32, 4});
  Placement placement;
  placement.layers = 1;
  placement.slots_of_instance = {32, 32};
  for (int slot = 0; slot < 64; ++slot) placement.expert_of.push_back(slot % 32);
  ReplicaShares shares(LayerPlacement::Of(placement, 0, 32), 0);
  const std::vector<int> chosen(32, 500);
  const ExpertCost& cost = timed.setting().experts.experts;
  // 32 x 500 choices of 4 stand for 16 x 6 / 4 each; an instance takes half of them.
  EXPECT_NEAR(timed.ExpertSeconds(shares, chosen, 4000),
              ExpertRoundSeconds(cost, {5120, 1536, 2, 1}, 80.5, 160, 32 * 250 * 24), 1e-9);
}

TEST(ReplicaSharesTest, FillTheLowestInstancesUpToTheSameLevel) {
  // Expert 0 is on instance 0, expert 1 on both, expert 2 on 1 and 2.
  Placement placement;
  placement.layers = 1;
  placement.slots_of_instance = {2, 2, 1};
  placement.expert_of = {0, 1, 1, 2, 2};
  const LayerPlacement layer = LayerPlacement::Of(placement, 0, 3);
  const auto of = [&](int instance, std::vector<double> activated) {
    ReplicaShares shares(layer, instance);
    const std::span<const double> mine = shares.Of(activated);
    return std::vector<double>(mine.begin(), mine.end());
  };
  EXPECT_EQ(of(0, {4, 2, 0}), (std::vector<double>{4, 0, 0}));
  EXPECT_EQ(of(1, {4, 2, 0}), (std::vector<double>{0, 2, 0}));
  // The second pass hands some of expert 2 on, once it knows where expert 1 is.
  EXPECT_EQ(of(2, {4, 2, 6}), (std::vector<double>{0, 0, 4}));
  EXPECT_EQ(of(1, {4, 2, 6}), (std::vector<double>{0, 2, 2}));
  EXPECT_EQ(of(0, {0, 0, 0}), (std::vector<double>{0, 0, 0}));
  ReplicaShares first(layer, 0);
  EXPECT_EQ(first.held(), 2);
}

TEST(TimedModelTest, NoRowsTakeNoTime) {
  const TimedModel timed = Make({"H200", "deepseek-v3", 64, 1}, kDemo);
  EXPECT_EQ(timed.AttentionSeconds({.decode = 0, .context = 1}), 0);
  EXPECT_EQ(timed.SharedSeconds(0), 0);
  EXPECT_EQ(timed.DenseSeconds({.decode = 0, .context = 1}), 0);
  EXPECT_EQ(timed.ExpertSeconds(std::vector<int>{0, 0}, 0), 0);
  EXPECT_EQ(timed.ExchangeSeconds(2, 8, 0).out, 0);
  EXPECT_EQ(timed.ExchangeSeconds(2, 8, 0).back, 0);
}

TEST(TimedModelTest, TheTimeScaleDividesAllTimesAndNoRoom) {
  const TimedModel slow = Make({"H200", "deepseek-v3", 64, 1}, kDemo);
  const TimedModel fast = Make({"H200", "deepseek-v3", 64, 8}, kDemo);
  const AttentionRows rows = {.decode = 2, .context = 900, .prompt = 3, .prompt_keys = 50};
  const std::vector<int> slots = {2, 8};
  EXPECT_NEAR(8 * fast.AttentionSeconds(rows), slow.AttentionSeconds(rows), 1e-12);
  EXPECT_NEAR(8 * fast.SharedSeconds(5), slow.SharedSeconds(5), 1e-12);
  EXPECT_NEAR(8 * fast.DenseSeconds(rows), slow.DenseSeconds(rows), 1e-12);
  EXPECT_NEAR(8 * fast.ExpertSeconds(slots, 9), slow.ExpertSeconds(slots, 9), 1e-12);
  EXPECT_NEAR(8 * fast.ExchangeSeconds(2, 8, 5).out, slow.ExchangeSeconds(2, 8, 5).out, 1e-12);
  EXPECT_NEAR(8 * fast.ExchangeSeconds(2, 8, 5).back, slow.ExchangeSeconds(2, 8, 5).back, 1e-12);
  EXPECT_EQ(fast.slots(), slow.slots());
  EXPECT_EQ(fast.kv_tokens(), slow.kv_tokens());
}

TEST(TimedModelTest, RoomIsTheNamedDevicesForTheNamedModel) {
  const TimedModel one = Make({"h200", "DeepSeek-V3"}, kDemo);
  const TimedModel scaled = Make({"H200", "deepseek-v3", 64, 1}, kDemo);
  EXPECT_EQ(ToString(one.device()), "H200 as deepseek-v3, scale 1, time scale 1");
  EXPECT_EQ(one.slots(), 1) << "49 named experts of a layer, 32 for one";
  EXPECT_EQ(scaled.slots(), 1);
  EXPECT_EQ(scaled.kv_tokens(), one.kv_tokens() / 64);
  EXPECT_GT(one.kv_tokens(), 1'000'000);
  EXPECT_EQ(Make({"H200", "mixtral-8x22b"}, kDemo).slots(), 3);
}

TEST(TimedModelTest, WhatCannotBeIsRefusedWithWhatToChange) {
  ExpectRefused({"B200", "deepseek-v3"}, kDemo, {"no hardware 'B200'", "H200"});
  ExpectRefused({"H200", "gpt-5"}, kDemo, {"no model 'gpt-5'", "deepseek-v3"});
  ExpectRefused({"H200", "deepseek-v3", 0, 1}, kDemo, {"scale", "is 0", "1 to 65536"});
  ExpectRefused({"H200", "deepseek-v3", 1, 2000}, kDemo, {"timeScale", "is 2000", "1 to 1000"});
  ExpectRefused({"H200", "mixtral-8x22b"}, {24, 60, 4}, {"60 experts", "mixtral-8x22b has 8"});
  ExpectRefused({"H100", "deepseek-v3"}, kDemo,
                {"one H100 has room for 28 experts", "stands for 32", "more memory"});
  ExpectRefused({"H200", "deepseek-v3"}, {0, 0, 0}, {"routed experts"});
}

TEST(TimedDeviceTest, ARunIsVoidAboveOnePercentOfOverruns) {
  EXPECT_FALSE(IsVoid(0, 0));
  EXPECT_FALSE(IsVoid(1000, 10));
  EXPECT_TRUE(IsVoid(1000, 11));
}

}  // namespace
}  // namespace janus::controllers
