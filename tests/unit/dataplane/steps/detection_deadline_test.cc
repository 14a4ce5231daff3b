#include "dataplane/steps/detection_deadline.h"

#include <gtest/gtest.h>

#include "dataplane/steps/step_control.h"

namespace janus::dataplane {
namespace {

constexpr int kWindow = DetectionDeadline::kWindow;

class DetectionDeadlineTest : public testing::Test {
 protected:
  void Arrive(int times, Seconds waited) {
    for (int i = 0; i < times; ++i) deadline_.OnArrival(waited);
  }
  double value() const { return deadline_.value().count(); }

  DetectionDeadline deadline_{Seconds(1), Seconds(10)};
};

TEST_F(DetectionDeadlineTest, IsTheMostUntilAWindowOfRoundsIsKnown) {
  EXPECT_EQ(value(), 10.0);
  Arrive(kWindow - 1, Seconds(0.001));
  EXPECT_EQ(value(), 10.0);
  Arrive(1, Seconds(0.001));
  EXPECT_EQ(value(), 1.0);
}

TEST(LossDeadline, IsAsLongAsARoundMayTakeWithinItsBounds) {
  const StepDeadlines deadlines{Seconds(10), Seconds(8), Seconds(1), Seconds(2)};
  EXPECT_EQ(LossDeadline(deadlines, Seconds(1)), Seconds(2));
  EXPECT_EQ(LossDeadline(deadlines, Seconds(5)), Seconds(5));
  EXPECT_EQ(LossDeadline(deadlines, Seconds(10)), Seconds(8));
}

TEST_F(DetectionDeadlineTest, IsEightTimesThePercentileOfTheLastWindow) {
  Arrive(kWindow, Seconds(0.25));
  EXPECT_NEAR(value(), 2.0, 1e-6);
  // Fewer than one in a hundred of the last window are that long, and they are not the longest.
  Arrive(kWindow - 8, Seconds(0.13));
  Arrive(8, Seconds(0.25));
  EXPECT_NEAR(value(), 8 * 0.13, 1e-6);
  Arrive(4 * kWindow, Seconds(100));
  EXPECT_EQ(value(), 10.0);
}

TEST_F(DetectionDeadlineTest, IsAtLeastTwiceTheLongestHoweverRareAtOnceAndForAWindow) {
  Arrive(kWindow, Seconds(0.001));
  Arrive(1, Seconds(0.75));
  EXPECT_NEAR(value(), 1.5, 1e-6);
  Arrive(kWindow - 1, Seconds(0.001));
  EXPECT_NEAR(value(), 1.5, 1e-6);
  Arrive(kWindow, Seconds(0.001));
  EXPECT_EQ(value(), 1.0);
}

TEST_F(DetectionDeadlineTest, IsTheMostFromTheSecondStepInARowThatIsGivenUp) {
  Arrive(kWindow, Seconds(0.001));
  for (const double expected : {4.0, 10.0, 10.0}) {
    deadline_.OnGivenUp();
    EXPECT_EQ(value(), expected);
  }
  // It stays as long as the window remembers, then it falls again.
  Arrive(kWindow + 128, Seconds(0.001));
  EXPECT_EQ(value(), 1.0);
}

TEST_F(DetectionDeadlineTest, IsConstantWhereLeastIsNotBelowMost) {
  for (const double least : {0.5, 1.0}) {
    DetectionDeadline fixed{Seconds(least), Seconds(0.5)};
    for (int i = 0; i < 2 * kWindow; ++i) fixed.OnArrival(Seconds(i % 2 == 0 ? 0.001 : 7.0));
    fixed.OnGivenUp();
    EXPECT_EQ(fixed.value().count(), 0.5);
  }
}

}  // namespace
}  // namespace janus::dataplane
