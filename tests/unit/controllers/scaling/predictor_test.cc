#include "controllers/scaling/predictor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "controllers/plan/terms.h"
#include "controllers/scaling/cheapest.h"

#include "tests/support/random.h"
#include "tests/unit/controllers/plan/settings.h"

namespace janus::controllers {
namespace {

const Predictor& DeepSeekV3() {
  static const Predictor predictor = [] {
    PredictorOptions options;
    options.max_attention = 96;
    options.max_experts = 96;
    return *Predictor::Create(On("deepseek-v3", "H200"), options);
  }();
  return predictor;
}

Predictor OnH100(PredictorOptions options) {
  options.max_attention = 24;
  options.max_experts = 16;
  return *Predictor::Create(On("dbrx", "H100"), options);
}

const Predictor& Dbrx() {
  static const Predictor predictor = OnH100({.max_micro_batches = 3});
  return predictor;
}

// A row takes the time of 16, and a part of a step has at least one.
const Predictor& Timed() {
  static const Predictor predictor = OnH100({.rows_for_one = 16});
  return predictor;
}

ScalingPolicy Policy(double tpot) {
  ScalingPolicy policy;
  policy.tpot.seconds = tpot;
  policy.attention.max = 96;
  policy.experts.max = 96;
  return policy;
}

Demand Chat(double requests_per_second) {
  Demand demand;
  demand.requests_per_second = requests_per_second;
  demand.prompt_tokens_per_second = 1000 * requests_per_second;
  demand.output_tokens_per_second = 400 * requests_per_second;
  demand.context = 1200;
  return demand;
}

TEST(Predictor, TablesAreWithinAPercentOfTheModel) {
  std::mt19937 random(MixSeed(TestSeed(), 7));
  std::uniform_real_distribution<double> exponent(0, 1);
  for (const Predictor* predictor : {&DeepSeekV3(), &Dbrx(), &Timed()}) {
    double worst = 0;
    for (int i = 0; i < 2000; ++i) {
      Configuration how;
      how.m = 1 + static_cast<int>(random() % 24);
      how.n = predictor->FewestExperts() +
              static_cast<int>(
                  random() % static_cast<unsigned>(17 - std::min(16, predictor->FewestExperts())));
      how.slots = predictor->SlotsPerExpert(how.n);
      how.micro_batches = 1 + static_cast<int>(random() % 2);
      const StepLoad load = {std::exp2(13 * exponent(random)), std::exp2(4 + 12 * exponent(random)),
                             random() % 2 == 0 ? 0 : std::exp2(13 * exponent(random)),
                             std::exp2(12 * exponent(random)), predictor == &Timed() ? 16. : 1.};
      const StepTimes exact = TimesOfStep(predictor->setting(), how, load);
      const StepTimes fast = predictor->Step(how, load);
      for (const auto part : {&StepTimes::step, &StepTimes::attention, &StepTimes::experts}) {
        worst = std::max(worst, std::abs(fast.*part / exact.*part - 1));
      }
    }
    EXPECT_LT(worst, 0.01);
  }
}

TEST(Predictor, CorrectionsScaleTheirTermAndTheStep) {
  const Configuration how = DeepSeekV3().Steady(4, 16, Chat(2), Policy(0.05)).how;
  const StepLoad load = {256, 1024, 0, 0};
  const StepTimes plain = DeepSeekV3().Step(how, load);
  const StepTimes slow = DeepSeekV3().Step(how, load, {2, 1, 1, 1});
  EXPECT_DOUBLE_EQ(slow.attention, 2 * plain.attention);
  EXPECT_DOUBLE_EQ(slow.experts, plain.experts);
  EXPECT_GT(slow.step, plain.step);
  EXPECT_DOUBLE_EQ(DeepSeekV3().Step(how, load, {1, 1, 1, 1.5}).step, 1.5 * plain.step);
}

TEST(Predictor, SteadyStateIsWhereLoadAndStepAgree) {
  const ScalingPolicy policy = Policy(0.1);
  const Prediction p = DeepSeekV3().Steady(8, 24, Chat(10), policy);
  ASSERT_LT(p.tpot_seconds, 1);
  EXPECT_NEAR(p.batch, 4000 * p.tpot_seconds, 1e-3 * p.batch) << "Little's law";
  const double high = p.batch + 1.645 * std::sqrt(p.batch);
  EXPECT_NEAR(DeepSeekV3().Step(p.how, {high, 1200, 1e4 * p.tpot_seconds, 500}).step,
              p.tpot_seconds, 1e-3 * p.tpot_seconds);
}

TEST(Predictor, MoreLoadNeverTurnsNoIntoYes) {
  std::mt19937 random(MixSeed(TestSeed(), 3));
  ScalingPolicy policy = Policy(0.08);
  for (const bool with_ttft : {false, true}) {
    if (with_ttft) policy.ttft = LatencyTarget{1.5, 0.95};
    for (int i = 0; i < 300; ++i) {
      const int m = 1 + static_cast<int>(random() % 40);
      const int n = DeepSeekV3().FewestExperts() + static_cast<int>(random() % 40);
      const double share = i % 2 == 0 ? 0.85 : 1;
      bool kept = true;
      for (double rate = 0.25; rate < 300; rate *= 1.3) {
        const bool keeps = DeepSeekV3().Keeps(m, n, Chat(rate), policy, share);
        EXPECT_FALSE(keeps && !kept) << m << "A" << n << "E at " << rate;
        kept = keeps;
      }
      EXPECT_FALSE(kept);
    }
  }
}

TEST(Predictor, KeepsAgreesWithTheSteadyState) {
  std::mt19937 random(MixSeed(TestSeed(), 5));
  ScalingPolicy policy = Policy(0.08);
  policy.ttft = LatencyTarget{2, 0.9};
  int kept = 0;
  for (int i = 0; i < 2000; ++i) {
    const int m = 1 + static_cast<int>(random() % 40);
    const int n = DeepSeekV3().FewestExperts() + static_cast<int>(random() % 40);
    const double rate = 0.25 * std::exp2(static_cast<double>(random() % 100) / 12);
    const auto pressure = [&](double load) {
      return DeepSeekV3().Steady(m, n, Chat(load * rate), policy).pressure;
    };
    // They agree up to a percent of load, which may be much of the time to the first token.
    if (DeepSeekV3().Keeps(m, n, Chat(rate), policy, 1)) {
      ++kept;
      EXPECT_LE(pressure(0.99), 1) << m << "A" << n << "E " << rate;
    } else {
      EXPECT_GE(pressure(1.01), 1) << m << "A" << n << "E " << rate;
    }
  }
  EXPECT_GT(kept, 200);
  EXPECT_LT(kept, 1800);
}

TEST(Predictor, ADemandOfNothingIsCarriedByTheLeast) {
  EXPECT_TRUE(DeepSeekV3().Keeps(1, DeepSeekV3().FewestExperts(), Demand{}, Policy(0.1), 0.85));
}

TEST(Predictor, KeysThatDoNotFitAreNotKept) {
  ScalingPolicy policy = Policy(0.2);
  policy.max_batch_per_attention = 100000;
  Demand demand = Chat(1);
  demand.context = 100000;
  const double room = DeepSeekV3().KvTokensPerAttention();
  demand.least_running = room / 100000;
  EXPECT_FALSE(DeepSeekV3().Keeps(1, 32, demand, policy, 1));
  EXPECT_TRUE(DeepSeekV3().Keeps(4, 32, demand, policy, 1));
  demand.kv_tokens_per_attention = room / 8;
  EXPECT_FALSE(DeepSeekV3().Keeps(4, 32, demand, policy, 1)) << "what was observed counts";
}

TEST(Predictor, WhatCannotBeIsRefusedWithItsReason) {
  PredictorOptions few;
  few.max_experts = 2;
  const auto too_large = Predictor::Create(On("deepseek-v3", "H100"), few);
  ASSERT_FALSE(too_large.ok());
  EXPECT_NE(too_large.status().message().find("does not fit"), std::string::npos);
  PredictorOptions none;
  none.max_micro_batches = 0;
  EXPECT_FALSE(Predictor::Create(On("deepseek-v3", "H100"), none).ok());
  PredictorOptions no_mode;
  no_mode.modes = {};
  EXPECT_FALSE(Predictor::Create(On("deepseek-v3", "H100"), no_mode).ok());
}

// Evaluates all allowed counts and takes the cheapest.
std::optional<Counts> ByAsking(const Wanted& wanted, const CountBounds& b) {
  std::optional<Counts> best;
  for (int pools = 1; pools <= b.max_pools; ++pools) {
    for (int n = b.fewest_n; n <= b.most_n; ++n) {
      for (int m = 1; m <= b.most_m; ++m) {
        const Counts counts = {m, n, pools};
        if (!IsAllowed(b, wanted.predictor, counts)) continue;
        if (best && wanted.predictor.CostOf(counts) >= wanted.predictor.CostOf(*best)) break;
        if (wanted.Keeps(counts)) best = counts;
      }
    }
  }
  return best;
}

// With up to four micro-batches, more attention instances often make a step longer.
class CheapestOfMicroBatches : public testing::TestWithParam<std::pair<int, const char*>> {};

TEST_P(CheapestOfMicroBatches, CostsWhatAskingEveryPairFinds) {
  PredictorOptions options;
  options.max_attention = options.max_experts = 96;
  options.max_micro_batches = GetParam().first;
  const Predictor predictor = *Predictor::Create(On("deepseek-v3", GetParam().second), options);
  std::mt19937 random(MixSeed(TestSeed(), 11));
  const Corrections none;
  int found = 0;
  for (int i = 0; i < 150; ++i) {
    ScalingPolicy policy = Policy(0.03 + 0.02 * static_cast<double>(random() % 6));
    policy.attention.max = 8 + static_cast<int>(random() % 80);
    policy.experts.max = 20 + static_cast<int>(random() % 70);
    policy.attention.instances_per_pod = 1 << (random() % 3);
    policy.experts.instances_per_pod = 1 << (random() % 3);
    if (random() % 4 == 0) policy.max_gpus = 40 + static_cast<int>(random() % 60);
    if (random() % 4 == 0) policy.ratio_max = Ratio{3, 1};
    if (random() % 4 == 0) policy.ratio_min = Ratio{1, 2};
    if (random() % 3 == 0) policy.ttft = LatencyTarget{2, 0.95};
    if (random() % 3 == 0) policy.max_batch_per_attention = 1024;
    if (random() % 4 == 0) policy.max_pools = 2 + static_cast<int>(random() % 4);
    Demand demand = Chat(std::exp2(static_cast<double>(random() % 80) / 10));
    if (random() % 2 == 0) demand.prompt_tokens_per_second = demand.requests_per_second;
    if (random() % 3 == 0) demand.context = 20000;
    if (random() % 2 == 0) demand.burst = 1.4;
    const Wanted wanted = {predictor, policy, demand, 0.85, none, 1};
    const CountBounds bounds = BoundsOf(predictor, policy);
    const auto best = Cheapest(wanted, bounds, {8, 24});
    const auto exact = ByAsking(wanted, bounds);
    ASSERT_EQ(best.has_value(), exact.has_value()) << i;
    if (!best) continue;
    ++found;
    EXPECT_TRUE(IsAllowed(bounds, predictor, *best)) << i;
    EXPECT_TRUE(wanted.Keeps(*best)) << i;
    EXPECT_NEAR(predictor.CostOf(*best), predictor.CostOf(*exact), 1e-6)
        << i << ": " << NameOf(predictor, *best) << ", asked " << NameOf(predictor, *exact);
  }
  EXPECT_GT(found, 50);
}

INSTANTIATE_TEST_SUITE_P(All, CheapestOfMicroBatches,
                         testing::Values(std::pair(1, "H200"), std::pair(2, "H200"),
                                         std::pair(4, "H200"), std::pair(4, "H100")));

// Cheapest must not skip counts that would keep the target.
TEST(Predictor, MayKeepIsNeverFalseWhereSomethingBelowIsKept) {
  PredictorOptions options;
  options.max_attention = options.max_experts = 96;
  options.max_micro_batches = 4;
  const Predictor predictor = *Predictor::Create(On("deepseek-v3", "H100"), options);
  const ScalingPolicy policy = Policy(0.03);
  int lengthened = 0;
  for (double rate = 5; rate < 60; rate *= 1.3) {
    const Demand demand = Chat(rate);
    for (int n = predictor.FewestExperts(); n <= 64; n += 3) {
      bool kept = false;
      bool may = false;
      for (int m = 1; m <= 96; ++m) {
        const bool keeps = predictor.Keeps(m, n, demand, policy, 0.85);
        lengthened += kept && !keeps ? 1 : 0;
        kept = kept || keeps;
        const bool now = predictor.MayKeep(1, m, n, demand, policy, 0.85);
        EXPECT_TRUE(now || !kept) << m << "A" << n << "E at " << rate;
        EXPECT_TRUE(now || !may) << "once true, always: " << m << "A" << n << "E at " << rate;
        may = now;
      }
    }
  }
  EXPECT_GT(lengthened, 0) << "otherwise this shows nothing";
}

// For any sum rule, within a node and across nodes.
void ExpectLeast(const Setting& setting, Configuration how) {
  for (how.n = 1; how.n <= 64; how.n += 3) {
    for (const double rows : {1.0, 64.0, 1000.0, 20000.0}) {
      for (const int fewest : {1, 5, 16}) {
        ExchangeTimes least = {1e9, 1e9};
        for (int m = fewest; m <= 64; ++m) {
          how.m = m;
          const ExchangeTimes exact = TimesOfExchange(setting, how, rows);
          least = {std::min(least.out, exact.out), std::min(least.back, exact.back)};
          const ExchangeTimes bound = LeastExchange(setting, how, fewest, rows);
          EXPECT_LE(bound.out, least.out * (1 + 1e-12)) << m << "A" << how.n << "E";
          EXPECT_LE(bound.back, least.back * (1 + 1e-12)) << m << "A" << how.n << "E";
        }
      }
    }
  }
}

TEST(LeastExchange, IsNoMoreThanWithAnyNumberOfAttentionInstances) {
  Setting setting = On("deepseek-v3", "H200");
  Configuration how;
  for (const bool shares_node : {false, true}) {
    setting.shares_node = shares_node;
    for (const SumRule sum : {SumRule::kContributions, SumRule::kFixedPoint}) {
      how.sum = sum;
      for (const auto& [mode, gate] : {std::pair{ExchangeMode::kDirect, GateSide::kExperts},
                                       {ExchangeMode::kDirect, GateSide::kAttention},
                                       {ExchangeMode::kTwoPhaseSingle, GateSide::kExperts},
                                       {ExchangeMode::kTwoPhaseParallel, GateSide::kExperts},
                                       {ExchangeMode::kTwoPhaseParallel, GateSide::kAttention}}) {
        how.mode = mode;
        how.gate = gate;
        ExpectLeast(setting, how);
      }
    }
  }
}

TEST(Cheapest, TakesTheNearestOfEqualCost) {
  const ScalingPolicy policy = Policy(0.1);
  const Corrections none;
  const Demand demand = Chat(20);
  const Wanted wanted = {DeepSeekV3(), policy, demand, 0.85, none, 1};
  const CountBounds bounds = BoundsOf(DeepSeekV3(), policy);
  const Counts best = *Cheapest(wanted, bounds, {1, 1});
  EXPECT_EQ(*Cheapest(wanted, bounds, best), best);
}

TEST(Cheapest, WhereNothingKeepsItTheMostIsCarried) {
  ScalingPolicy policy = Policy(0.1);
  policy.attention.max = 8;
  const Corrections none;
  const Demand demand = Chat(200);
  const Wanted wanted = {DeepSeekV3(), policy, demand, 0.85, none, 1};
  const CountBounds bounds = BoundsOf(DeepSeekV3(), policy);
  ASSERT_FALSE(Cheapest(wanted, bounds, {1, 1}));
  const auto most = CheapestForMost(wanted, bounds, {1, 1});
  ASSERT_TRUE(most);
  EXPECT_GT(most->carried, 0);
  EXPECT_LT(most->carried, 1);
  const Demand carried = Scaled(demand, most->carried);
  EXPECT_TRUE(DeepSeekV3().Keeps(most->counts.m, most->counts.n, carried, policy, 0.85));
}

}  // namespace
}  // namespace janus::controllers
