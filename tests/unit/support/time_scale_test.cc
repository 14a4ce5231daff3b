#include "tests/support/time_scale.h"

#include <gtest/gtest.h>

namespace janus {
namespace {

TEST(TimeScale, IsTenWhereTheMachineIsSlowAndElseOne) {
  EXPECT_EQ(ParseTimeScale(nullptr, nullptr, false), 1.0);
  EXPECT_EQ(ParseTimeScale(nullptr, "", false), 1.0);
  EXPECT_EQ(ParseTimeScale(nullptr, "true", false), 10.0);
  EXPECT_EQ(ParseTimeScale(nullptr, nullptr, true), 10.0);
}

TEST(TimeScale, IsWhatIsGivenWhateverTheMachine) {
  EXPECT_EQ(ParseTimeScale("2.5", "true", true), 2.5);
  EXPECT_EQ(ParseTimeScale("0.5", nullptr, false), 0.5);
}

TEST(TimeScale, RefusesWhatIsNoPositiveNumber) {
  for (const char* bad : {"", "0", "-1", "x", "2x", " 2", "nan", "inf", "1e999"}) {
    EXPECT_EQ(ParseTimeScale(bad, nullptr, false), std::nullopt) << bad;
  }
}

TEST(TimeScaleDeathTest, EndsAProgramThatIsGivenABadOne) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto scale = [] {
    setenv("JANUS_TIME_SCALE", "fast", 1);
    (void)TimeScale();
  };
  EXPECT_EXIT(scale(), testing::ExitedWithCode(2),
              "JANUS_TIME_SCALE: 'fast' is not a positive number");
}

TEST(Scaled, KeepsTheUnit) {
  const double scale = TimeScale();
  EXPECT_EQ(Scaled(std::chrono::milliseconds(300)).count(), static_cast<int64_t>(300 * scale));
  EXPECT_EQ(Scaled(std::chrono::duration<double>(0.25)).count(), 0.25 * scale);
  EXPECT_EQ(ScaledForPoll(std::chrono::seconds(2)), static_cast<int>(2000 * scale));
}

}  // namespace
}  // namespace janus
