#include "dataplane/engine/step_times.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(times.PrefillRows(Seconds(0.1), 0, 16, 512), 64);
}

TEST(StepTimes, PredictsByPhaseAndRows) {
  StepTimes times;
  times.Record(10, 0, Seconds(0.01));
  times.Record(100, 0, Seconds(0.02));
  times.Record(10, 20, Seconds(0.05));
  EXPECT_EQ(times.Predict(63, 0).count(), 0.01);
  EXPECT_EQ(times.Predict(64, 0).count(), 0.02);
  EXPECT_EQ(times.Predict(5, 5).count(), 0.05);
}

TEST(StepTimes, TakesTheNearestSmallerKindElseTheSmallestKnown) {
  StepTimes times;
  times.Record(130, 0, Seconds(0.02));
  EXPECT_EQ(times.Predict(500, 0).count(), 0.02);
  EXPECT_EQ(times.Predict(3, 0).count(), 0.02) << "better than nothing: patience is a share of it";
  EXPECT_EQ(times.Predict(3, 1).count(), 0.0) << "of the other phase nothing was seen";
}

TEST(StepTimes, AnEmptyStepTeachesNothing) {
  StepTimes times;
  times.Record(0, 0, Seconds(5.0));
  EXPECT_EQ(times.Predict(1, 0).count(), 0.0);
}

TEST(StepTimes, FitsPromptsIntoWhatDecodingLeaves) {
  StepTimes times;
  times.Record(10, 0, Seconds(0.02));
  times.Record(10, 100, Seconds(0.12));  // 1 ms per prompt position beyond the decode rows
  EXPECT_NEAR(times.PrefillRows(Seconds(0.1), 10, 16, 512), 80, 1);
  EXPECT_NEAR(times.PrefillRows(Seconds(0.1), 0, 16, 512), 80, 1)
      << "fewer decode rows of the same kind";
  EXPECT_EQ(times.PrefillRows(Seconds(0.001), 10, 16, 512), 16) << "prompts always move on";
  EXPECT_EQ(times.PrefillRows(Seconds(10.0), 10, 16, 512), 512);
}

TEST(StepTimes, TheMostRowsBoundTheLeast) {
  StepTimes times;
  EXPECT_EQ(times.PrefillRows(Seconds(0.1), 0, 16, 8), 8);
  times.Record(0, 100, Seconds(0.1));
  EXPECT_EQ(times.PrefillRows(Seconds(0.1), 0, 16, 8), 8);
}

}  // namespace
}  // namespace janus::dataplane
