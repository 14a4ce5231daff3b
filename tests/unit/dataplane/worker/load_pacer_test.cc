#include "dataplane/worker/load_pacer.h"

#include <gtest/gtest.h>

namespace janus::dataplane {
namespace {

constexpr Seconds kPiece{0.01};

class LoadPacerTest : public testing::Test {
 protected:
  // A piece in which that many rounds took so long each.
  double PauseAfter(uint64_t rounds, double each) {
    now_.rounds += rounds;
    now_.seconds += static_cast<double>(rounds) * each;
    return pacer_.PauseAfter(kPiece, now_) / kPiece;
  }
  LoadPacer::Busy now_{1.0, 1000};
  LoadPacer pacer_{now_};
};

TEST_F(LoadPacerTest, GoesOnWhileRoundsAreAsFastAsBefore) {
  for (int i = 0; i < 10; ++i) EXPECT_EQ(PauseAfter(20, 1.1e-3), 0);
}

TEST_F(LoadPacerTest, PausesLongerWhileRoundsAreSlower) {
  EXPECT_DOUBLE_EQ(PauseAfter(20, 1.3e-3), 1);
  EXPECT_DOUBLE_EQ(PauseAfter(20, 1.3e-3), 3);
  EXPECT_DOUBLE_EQ(PauseAfter(20, 1.3e-3), 7);
  EXPECT_DOUBLE_EQ(PauseAfter(20, 1.3e-3), LoadPacer::kLongestPause);
  EXPECT_DOUBLE_EQ(PauseAfter(20, 1.3e-3), LoadPacer::kLongestPause);
  EXPECT_DOUBLE_EQ(PauseAfter(20, 1.0e-3), LoadPacer::kLongestPause / 2);
  for (int i = 0; i < 10; ++i) PauseAfter(20, 1.0e-3);
  EXPECT_EQ(PauseAfter(20, 1.0e-3), 0);
}

TEST_F(LoadPacerTest, WaitsForEnoughRoundsToCompare) {
  EXPECT_EQ(PauseAfter(5, 9e-3), 0);
  EXPECT_EQ(PauseAfter(5, 9e-3), 0);
  EXPECT_DOUBLE_EQ(PauseAfter(10, 9e-3), 1);
}

TEST_F(LoadPacerTest, WithoutTrafficItDoesNotPause) {
  EXPECT_DOUBLE_EQ(PauseAfter(20, 2e-3), 1);
  for (int i = 0; i < 5; ++i) PauseAfter(0, 0);
  EXPECT_EQ(PauseAfter(0, 0), 0);
}

TEST(LoadPacer, ComparesWithNothingWithoutTrafficBefore) {
  LoadPacer pacer({0.01, 3});
  EXPECT_EQ(pacer.PauseAfter(kPiece, {1, 100}), Seconds(0));
}

TEST(Pause, EndsWhenAskedTo) {
  std::stop_source stop;
  stop.request_stop();
  Pause(Seconds(1e6), stop.get_token());
}

}  // namespace
}  // namespace janus::dataplane
