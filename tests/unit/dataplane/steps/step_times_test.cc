#include "dataplane/steps/step_times.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace janus::dataplane {
namespace {

TEST(RunningMedian, IsOfTheLast32) {
  RunningMedian median;
  EXPECT_TRUE(median.empty());
  EXPECT_EQ(median.value(), 0.0);
  for (int i = 0; i < 100; ++i) median.Add(1000.0);
  for (int i = 1; i <= 32; ++i) median.Add(i);
  EXPECT_EQ(median.value(), 17.0);
  EXPECT_FALSE(median.empty());
  RunningMedian of_three(3);
  for (const double value : {1e9, 1e9, 1.0, 2.0, 3.0}) of_three.Add(value);
  EXPECT_EQ(of_three.value(), 2.0);
}

TEST(RunningMedian, OneOutlierDoesNotMoveIt) {
  RunningMedian median;
  for (int i = 0; i < 5; ++i) median.Add(2.0);
  median.Add(1e9);
  EXPECT_EQ(median.value(), 2.0);
}

TEST(StepTimes, KnowsNothingAtTheStart) {
  const StepTimes times;
  EXPECT_EQ(times.Predict(8, 0).count(), 0.0);
  EXPECT_EQ(times.Prefill(Seconds(0.1), 0, 0.1, 512, 1).each, 64);
  EXPECT_EQ(times.Prefill(Seconds(0.1), 0, 0.1, 512, 4).total, 64);
}

TEST(StepTimes, PredictsByPhaseAndRows) {
  StepTimes times;
  times.Record({10, 0, 0}, Seconds(0.01));
  times.Record({100, 0, 0}, Seconds(0.02));
  times.Record({10, 20, 20}, Seconds(0.05));
  EXPECT_EQ(times.Predict(63, 0).count(), 0.01);
  EXPECT_EQ(times.Predict(64, 0).count(), 0.02);
  EXPECT_EQ(times.Predict(5, 5).count(), 0.05);
}

TEST(StepTimes, TakesTheNearestSmallerKindElseTheSmallestKnown) {
  StepTimes times;
  times.Record({130, 0, 0}, Seconds(0.02));
  EXPECT_EQ(times.Predict(500, 0).count(), 0.02);
  EXPECT_EQ(times.Predict(3, 0).count(), 0.02) << "better than nothing: patience is a share of it";
  EXPECT_EQ(times.Predict(3, 1).count(), 0.0) << "of the other phase nothing was seen";
}

TEST(StepTimes, AnEmptyStepTeachesNothing) {
  StepTimes times;
  times.Record({0, 0, 0}, Seconds(5.0));
  EXPECT_EQ(times.Predict(1, 0).count(), 0.0);
}

TEST(StepTimes, FitsPromptsIntoWhatDecodingLeaves) {
  StepTimes times;
  times.Record({10, 0, 0}, Seconds(0.02));
  times.Record({10, 100, 100}, Seconds(0.12));  // 1 ms per prompt position beyond the decode rows
  EXPECT_NEAR(times.Prefill(Seconds(0.1), 10, 0.1, 512, 1).each, 80, 1);
  EXPECT_NEAR(times.Prefill(Seconds(0.1), 5, 0.1, 512, 1).each, 80, 1)
      << "fewer decode rows of the same kind";
  EXPECT_NEAR(times.Prefill(Seconds(0.1), 0, 0.1, 512, 1).each, 100, 1) << "nobody decodes";
  EXPECT_EQ(times.Prefill(Seconds(10.0), 10, 0.1, 512, 1).each, 512);
}

// A step with prompts reads experts that decoding alone would not: the first position is expensive.
TEST(StepTimes, NeverLeavesTheTargetWhereFewPositionsCostMoreEach) {
  StepTimes times;
  const auto took = [](int prefill) { return Seconds(0.02 + 0.01 + 0.0005 * prefill); };
  times.Record({10, 0, 0}, Seconds(0.02));
  int rows = times.Prefill(Seconds(0.04), 10, 0.1, 512, 1).each;
  for (int step = 0; step < 8; ++step) {
    times.Record({10, rows, rows}, took(rows));
    rows = times.Prefill(Seconds(0.04), 10, 0.1, 512, 1).each;
  }
  EXPECT_LE(took(rows).count(), 0.0401);
  EXPECT_GE(rows, 12) << "20 would fit";
}

// The longer a prompt has become, the more expensive is each further position. A cost measured
// early in the prompt must not be used for its whole length.
TEST(StepTimes, KeepsToTheTargetWhileThePromptsKeysGrow) {
  constexpr double kTarget = 0.045;
  for (const double per_key : {0.0, 2e-8, 2e-7, 1e-6}) {
    StepTimes times;
    for (int i = 0; i < 10; ++i) times.Record({4, 0, 0}, Seconds(0.030));
    int steps = 0, late = 0;
    for (int done = 0; done < 8192; ++steps) {
      const int rows = std::min(times.Prefill(Seconds(kTarget), 4, 0.1, 512, 2).each, 8192 - done);
      const double took = 0.030 + 0.004 + rows * (4e-4 + per_key * done);
      times.Record({4, rows, rows}, Seconds(took));
      late += took > 1.07 * kTarget;
      done += rows;
    }
    EXPECT_LE(late, std::max(5, steps / 100)) << per_key << " s per key, " << steps << " steps";
    EXPECT_LE(steps, 8192 * (1 + (4e-4 + 4096 * per_key) / 0.011)) << per_key;
  }
}

// Between old measurements of small shares and new ones of larger shares.
TEST(StepTimes, AGrantCorrectsTheSizeThatItRestsOn) {
  StepTimes times;
  times.Record({4, 0, 0}, Seconds(0.030));
  for (int i = 0; i < 40; ++i) times.Record({4, 5, 5}, Seconds(0.030 + 5 * 0.001));
  for (int i = 0; i < 10; ++i) times.Record({4, 8, 8}, Seconds(0.030 + 8 * 0.003));
  int rows = 0;
  for (int step = 0; step < 8; ++step) {
    rows = times.Prefill(Seconds(0.040), 4, 0.1, 512, 1).each;
    times.Record({4, rows, rows}, Seconds(0.030 + rows * 0.003));
  }
  EXPECT_EQ(rows, 3);
}

TEST(StepTimes, OneSlowStepDoesNotForbidItsSizeForGood) {
  StepTimes times;
  const auto took = [](int rows) { return Seconds(0.030 + rows * 0.0001); };
  times.Record({4, 0, 0}, Seconds(0.030));
  times.Record({4, 64, 64}, Seconds(5.0));
  int rows = 0;
  for (int step = 0; step < 160; ++step) {
    rows = times.Prefill(Seconds(0.040), 4, 0.1, 512, 1).each;
    times.Record({4, rows, rows}, took(rows));
  }
  EXPECT_GE(rows, 90) << "100 fit";
}

// A read for one position serves the next ones too. After a period in which only one fitted, the
// prompt must not stay at one position a step for good.
TEST(StepTimes, SharesGrowAgainAfterATimeInWhichOnePositionWasAllThatFitted) {
  StepTimes times;
  times.Record({4, 0, 0}, Seconds(0.030));
  const auto took = [](int rows) { return Seconds(0.030 + 0.012 + rows * 0.0001); };
  int64_t slow = 0, fast = 0;
  for (int step = 0; step < 1200; ++step) {
    const int rows = times.Prefill(Seconds(0.046), 4, 0.1, 512, 1).each;
    const bool disturbed = step < 600;  // another process took half of the machine
    (disturbed ? slow : fast) += rows;
    times.Record({4, rows, rows}, disturbed ? 2.0 * took(rows) : took(rows));
  }
  EXPECT_GE(fast, 600 * 30) << "40 fit";
}

TEST(StepTimes, WhereNotOnePositionFitsAsManyAreComputedAsCostLittleMore) {
  StepTimes times;
  times.Record({4, 0, 0}, Seconds(0.030));
  int64_t done = 0;
  int dear = 0;
  for (int step = 0; step < 1000; ++step) {
    const int rows = times.Prefill(Seconds(0.035), 4, 0.1, 512, 1).each;
    done += rows;
    dear += rows > 64;
    times.Record({4, rows, rows}, Seconds(0.030 + 0.012 + rows * 0.0001));
  }
  EXPECT_GE(done, 1000 * 20) << "31 cost a quarter more than one";
  EXPECT_LE(dear, 0);
}

TEST(StepTimes, PromptsAtOneInstanceGetNoMoreThanWasSeenAtEach) {
  StepTimes times;
  // 0.5 ms per position at an instance, 0.25 ms per position of all.
  const auto took = [](int each, int total) { return Seconds(0.5e-3 * each + 0.25e-3 * total); };
  times.Record({0, 64, 256}, took(64, 256));
  PrefillBudget budget = times.Prefill(Seconds(0.096), 0, 0.1, 512, 4);
  EXPECT_EQ(budget.each, 64);
  EXPECT_EQ(budget.total, 256);
  // All prompts are at one instance from now on, later at four again: no step exceeds its target in
  // either case.
  times.Record({0, 64, 64}, took(64, 64));
  budget = times.Prefill(Seconds(0.096), 0, 0.1, 512, 4);
  EXPECT_LE(took(budget.each, budget.each).count(), 0.0961);
  StepTimes alone;
  alone.Record({0, 128, 128}, took(128, 128));
  budget = alone.Prefill(Seconds(0.096), 0, 0.1, 512, 4);
  EXPECT_LE(took(budget.total / 4, budget.total).count(), 0.0961);
}

// Independent of the number of keys: the share is one of time, not of positions.
TEST(StepTimes, PromptsAlwaysMoveOnByAShareOfTheTimeOfDecoding) {
  StepTimes times;
  times.Record({10, 0, 0}, Seconds(0.02));
  times.Record({10, 100, 100}, Seconds(0.12));
  EXPECT_EQ(times.Prefill(Seconds(0.001), 10, 0.25, 512, 1).each, 5) << "a quarter of 20 ms";
  times.Record({10, 4, 4}, Seconds(0.1));  // 20 ms each
  EXPECT_EQ(times.Prefill(Seconds(0.001), 10, 0.01, 512, 1).each, 1);
  EXPECT_EQ(times.Prefill(Seconds(0.001), 10, 0.01, 512, 2).total, 1);
}

TEST(StepTimes, NeverExceedsTheRowsOfARound) {
  StepTimes times;
  EXPECT_EQ(times.Prefill(Seconds(0.1), 0, 0.1, 8, 1).each, 8);
  times.Record({0, 100, 100}, Seconds(0.1));
  EXPECT_EQ(times.Prefill(Seconds(0.1), 0, 0.1, 8, 1).each, 8);
}

}  // namespace
}  // namespace janus::dataplane
