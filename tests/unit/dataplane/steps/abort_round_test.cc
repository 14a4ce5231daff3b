#include "dataplane/steps/abort_round.h"

#include <gtest/gtest.h>

#include "tests/support/fake_clock.h"

namespace janus::dataplane {
namespace {

using Members = std::vector<int>;

class AbortRoundTest : public testing::Test {
 protected:
  FakeClock clock_;
  AbortRound round_{3, 7, Seconds(1), Seconds(5), clock_.Now()};
};

TEST_F(AbortRoundTest, TellsEverybodyAtOnceAndAgainWhoHasNotLeft) {
  EXPECT_LE(round_.NextDeadline(), clock_.Now());
  EXPECT_EQ(round_.Due(clock_.Now()), (Members{0, 1, 2}));
  EXPECT_EQ(round_.Due(clock_.Now()), Members{});
  EXPECT_TRUE(round_.OnLeft(1, 7, 7));
  EXPECT_EQ(round_.NextDeadline(), clock_.Now() + std::chrono::seconds(1));
  clock_.Advance(Seconds(1.0));
  EXPECT_EQ(round_.Due(clock_.Now()), (Members{0, 2}));
}

TEST_F(AbortRoundTest, IsCompleteWhenAllHaveLeftAndNotBefore) {
  for (const int member : {2, 0, 1}) {
    EXPECT_FALSE(round_.complete());
    EXPECT_TRUE(round_.OnLeft(member, 7, 6));
  }
  EXPECT_TRUE(round_.complete());
  EXPECT_EQ(round_.fence(), 7u);
  clock_.Advance(Seconds(6.0));
  EXPECT_EQ(round_.Lost(clock_.Now()), Members{});
}

TEST_F(AbortRoundTest, AWordAboutAnotherFenceOrSaidTwiceIsOfNoUse) {
  EXPECT_FALSE(round_.OnLeft(0, 6, 6)) << "late";
  EXPECT_FALSE(round_.OnLeft(0, 8, 8)) << "falsified";
  EXPECT_FALSE(round_.has_left(0));
  EXPECT_TRUE(round_.OnLeft(0, 7, 7));
  EXPECT_FALSE(round_.OnLeft(0, 7, 7));
}

TEST_F(AbortRoundTest, ANumberAboveTheFenceRaisesItForAll) {
  round_.Due(clock_.Now());
  EXPECT_TRUE(round_.OnLeft(0, 7, 7));
  EXPECT_TRUE(round_.OnLeft(1, 7, 9));
  EXPECT_EQ(round_.fence(), 9u);
  EXPECT_FALSE(round_.has_left(0)) << "it may post for 8 and 9 still";
  EXPECT_LE(round_.NextDeadline(), clock_.Now());
  EXPECT_EQ(round_.Due(clock_.Now()), (Members{0, 1, 2}));
  for (int member = 0; member < 3; ++member) EXPECT_TRUE(round_.OnLeft(member, 9, 9));
  EXPECT_TRUE(round_.complete());
}

TEST_F(AbortRoundTest, ANumberThatLeavesNoneForLaterStepsIsRefused) {
  EXPECT_FALSE(round_.OnLeft(1, 7, UINT64_MAX));
  EXPECT_EQ(round_.fence(), 7u);
  EXPECT_FALSE(round_.has_left(1));
}

TEST_F(AbortRoundTest, NamesWhoIsLostWhenTheDeadlineIsOver) {
  round_.OnLeft(1, 7, 7);
  clock_.Advance(Seconds(4.9));
  EXPECT_EQ(round_.Lost(clock_.Now()), Members{});
  round_.Due(clock_.Now());
  EXPECT_EQ(round_.NextDeadline(), clock_.Now() + std::chrono::milliseconds(100));
  clock_.Advance(Seconds(0.1));
  EXPECT_EQ(round_.Lost(clock_.Now()), (Members{0, 2}));
}

}  // namespace
}  // namespace janus::dataplane
