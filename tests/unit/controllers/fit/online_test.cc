#include "controllers/fit/online.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace janus::controllers {
namespace {

constexpr StepTimes kPredicted = {0.02, 0.02, 0.01, 0.05};

StepSample Sample(double time, double attention = 0.02, double step = 0.05) {
  StepSample sample;
  sample.time_seconds = time;
  sample.load = {256, 1000, 0, 0};
  sample.seconds = {attention, 0.02, 0.01, step};
  sample.steps = 200;
  return sample;
}

OnlineState Learned(int samples, double attention, double step = 0.05) {
  OnlineState state;
  for (int i = 0; i < samples; ++i) {
    state = Learn(state, Sample(15 * (i + 1), attention, step), kPredicted, kPredicted.step, {});
  }
  return state;
}

TEST(Learn, AFactorConvergesToWhatWasMeasured) {
  const OnlineState state = Learned(20, 0.02 * 1.3);
  EXPECT_NEAR(state.corrections.attention, 1.3, 0.03);
  EXPECT_NEAR(state.corrections.experts, 1, 1e-9);
}

TEST(Learn, OneSampleDoesNotOverturnTheCalibration) {
  EXPECT_NEAR(Learned(1, 0.02 * 1.5).corrections.attention, 1, 0.05);
}

TEST(Learn, FactorsKeepToTheirBounds) {
  EXPECT_EQ(Learned(40, 0.02 * 100).corrections.attention, 2);
  EXPECT_EQ(Learned(40, 0.02 / 100).corrections.attention, 0.5);
}

TEST(Learn, OutliersDoNotMoveIt) {
  std::mt19937 random(1);
  OnlineState state;
  for (int i = 1; i <= 32; ++i) {
    const double odd = random() % 4 == 0 ? 20 : 1;
    state = Learn(state, Sample(15 * i, 0.02 * 1.2 * odd), kPredicted, 0.05, {});
  }
  EXPECT_NEAR(state.corrections.attention, 1.2, 0.05);
}

TEST(Learn, OldSamplesAreForgotten) {
  OnlineState state = Learned(32, 0.02 * 1.5);
  for (int i = 0; i < 10; ++i) {
    state = Learn(state, Sample(10000 + 15 * i), kPredicted, 0.05, {});
  }
  EXPECT_NEAR(state.corrections.attention, 1, 0.02);
}

TEST(Learn, WhatIsColdFewOldOrNoNumberChangesNothing) {
  const OnlineState before = Learned(5, 0.03);
  const auto unchanged = [&](const StepSample& sample) {
    return Learn(before, sample, kPredicted, 0.05, {}) == before;
  };
  StepSample cold = Sample(1000);
  cold.is_warm = false;
  EXPECT_TRUE(unchanged(cold));
  StepSample few = Sample(1000);
  few.steps = 3;
  EXPECT_TRUE(unchanged(few));
  EXPECT_TRUE(unchanged(Sample(75))) << "the last one's time";
  for (const double odd :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -1.0}) {
    EXPECT_TRUE(unchanged(Sample(1000, odd))) << odd;
    EXPECT_TRUE(unchanged(Sample(1000, 0.02, odd))) << odd;
  }
  EXPECT_FALSE(unchanged(Sample(1000)));
}

TEST(Learn, ATermThatWasNotMeasuredIsLeftAlone) {
  OnlineState state;
  for (int i = 1; i <= 10; ++i) state = Learn(state, Sample(15 * i, 0), kPredicted, 0.05, {});
  EXPECT_EQ(state.corrections.attention, 1);
  EXPECT_TRUE(state.ratios[0].empty());
}

TEST(Learn, TheErrorIsThatBeforeTheSampleWasLearnedFrom) {
  const OnlineState state = Learned(20, 0.02, 0.05 * 1.25);
  const OnlineError error = ErrorOf(state);
  EXPECT_EQ(error.count, 20);
  EXPECT_NEAR(error.uncorrected_median, 0.2, 1e-9) << "predicted 0.05, measured 0.0625";
  EXPECT_LT(error.corrected_median, 0.03);
  EXPECT_EQ(state.judged[0].corrected, state.judged[0].uncorrected);
}

TEST(Learn, KeepsNoMoreThanItsBound) {
  EXPECT_EQ(Learned(200, 0.02).ratios[0].size(), 32U);
}

InstanceStatistics Worker(Role role, int rank, uint64_t steps, double compute) {
  InstanceStatistics worker;
  worker.role = role;
  worker.rank = Rank{rank};
  worker.steps = steps;
  worker.compute_seconds = compute;
  if (role == Role::kExperts) {
    worker.rounds = 10 * steps;
  } else {
    worker.rows = 100 * steps;
    worker.tokens = 80 * steps;
    worker.running = 80;
    worker.kv_tokens_used = 80000;
    worker.wait_seconds = 0.03 * static_cast<double>(steps);
    worker.step_seconds_median = 0.055;
  }
  return worker;
}

Statistics At(uint64_t steps) {
  Statistics statistics;
  statistics.epoch = 4;
  const auto count = static_cast<double>(steps);
  statistics.instances = {Worker(Role::kAttention, 0, steps, 0.02 * count),
                          Worker(Role::kAttention, 1, steps, 0.02 * count),
                          Worker(Role::kExperts, 0, steps, 0.022 * count),
                          Worker(Role::kExperts, 1, steps, 0.022 * count)};
  return statistics;
}

TEST(SampleBetween, TakesDifferencesOfCounters) {
  const auto sample = SampleBetween(At(1000), At(1200), 15, 100, 1, 500);
  ASSERT_TRUE(sample);
  EXPECT_DOUBLE_EQ(sample->steps, 200);
  EXPECT_NEAR(sample->load.decode_rows, 160, 1e-9);
  EXPECT_NEAR(sample->load.prompt_rows, 40, 1e-9);
  EXPECT_NEAR(sample->load.context, 1000, 1e-9);
  EXPECT_NEAR(sample->seconds.attention, 0.02, 1e-9);
  EXPECT_NEAR(sample->seconds.experts, 0.022, 1e-9);
  EXPECT_NEAR(sample->seconds.exchange, 0.008, 1e-9) << "waited 0.03, of which 0.022 computing";
  EXPECT_EQ(sample->seconds.step, 0.055);
  EXPECT_EQ(SampleBetween(At(1000), At(1200), 15, 100, 2, 500)->seconds.exchange, 0)
      << "with two micro-batches waiting says nothing of the exchange";
}

TEST(SampleBetween, ARestartedOrColdInstanceIsLeftOut) {
  Statistics after = At(1200);
  after.instances[0] = Worker(Role::kAttention, 0, 5, 5);  // it has restarted
  EXPECT_NEAR(SampleBetween(At(1000), after, 15, 100, 1, 0)->seconds.attention, 0.02, 1e-9);
  EXPECT_FALSE(SampleBetween(At(10), At(50), 15, 100, 1, 0)) << "all are cold";
  after = At(1200);
  after.epoch = 5;
  EXPECT_FALSE(SampleBetween(At(1000), after, 15, 100, 1, 0));
  EXPECT_FALSE(SampleBetween(At(1000), At(1000), 15, 100, 1, 0)) << "no step in between";
}

// As At, of workers that count their load: of 100 rows in a step 70 decode.
Statistics CountedAt(uint64_t steps, uint64_t process = 7) {
  Statistics statistics = At(steps);
  const auto count = static_cast<double>(steps);
  for (InstanceStatistics& one : statistics.instances) {
    LoadCounts& load = one.load.emplace();
    load.process = process;
    if (one.role == Role::kExperts) {
      load.gate_seconds = 0.002 * count;
      load.aebs_seconds = 0.001 * count;
      load.expert_seconds = 0.017 * count;
    } else {
      load.decode_rows = 70 * steps;
      load.decode_keys = 70 * 300 * steps;
      load.prompt_rows = 30 * steps;
      load.prompt_keys = 30 * 50 * steps;
      load.attention_seconds = 0.018 * count;
      load.exchange_seconds = 0.031 * count;
      load.step_seconds = 0.06 * count;
    }
  }
  return statistics;
}

TEST(SampleBetween, TakesRowsKeysAndTimesFromWhereTheyAreCounted) {
  const auto sample = SampleBetween(CountedAt(1000), CountedAt(1200), 15, 100, 1, 9999);
  ASSERT_TRUE(sample);
  EXPECT_NEAR(sample->load.decode_rows, 140, 1e-9);
  EXPECT_NEAR(sample->load.prompt_rows, 60, 1e-9);
  EXPECT_NEAR(sample->load.context, 300, 1e-9);
  EXPECT_NEAR(sample->load.prompt_keys, 50, 1e-9);
  EXPECT_NEAR(sample->seconds.attention, 0.018, 1e-9);
  EXPECT_NEAR(sample->seconds.experts, 0.02, 1e-9);
  EXPECT_NEAR(sample->seconds.exchange, 0.011, 1e-9);
  EXPECT_NEAR(sample->seconds.step, 0.06, 1e-9);
  EXPECT_EQ(SampleBetween(CountedAt(1000), CountedAt(1200), 15, 100, 2, 0)->seconds.exchange, 0);
}

TEST(SampleBetween, AnotherProcessIsLeftOutHoweverManyStepsItHasRun) {
  Statistics after = CountedAt(1200);
  after.instances[0] = CountedAt(5000, 8).instances[0];
  const auto sample = SampleBetween(CountedAt(1000), after, 15, 100, 1, 0);
  ASSERT_TRUE(sample);
  EXPECT_NEAR(sample->seconds.attention, 0.018, 1e-9);
  EXPECT_NEAR(sample->load.decode_rows, 140, 1e-9) << "it had rows, too";
  EXPECT_FALSE(SampleBetween(CountedAt(1000), CountedAt(1200, 8), 15, 100, 1, 0));
}

}  // namespace
}  // namespace janus::controllers
