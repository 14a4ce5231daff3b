#include "controllers/scaling/arrivals.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/support/random.h"

namespace janus::controllers {
namespace {

TEST(ArrivalWindows, BeginWithTheInterval) {
  const auto of = [](double interval, double faster) {
    ScalingPolicy policy;
    policy.interval_seconds = interval;
    policy.times_faster = faster;
    return ArrivalWindows(policy);
  };
  using Windows = std::vector<double>;
  EXPECT_EQ(of(1, 1), (Windows{15, 60, 300}));
  EXPECT_EQ(of(15, 1), (Windows{15, 60, 300}));
  EXPECT_EQ(of(60, 1), (Windows{60, 60, 300}));
  EXPECT_EQ(of(120, 1), (Windows{120, 120, 300}));
  EXPECT_EQ(of(3600, 1), (Windows{300, 300, 300}));
  EXPECT_EQ(of(1, 10), (Windows{1.5, 6, 30}));
}

TEST(ReactedTo, AJumpAtOnceAndChanceNever) {
  std::mt19937 random(MixSeed(TestSeed(), 31));
  for (const double rate : {0.2, 1., 5., 50.}) {
    int jumps = 0, chance = 0;
    constexpr int kMinutes = 2000;
    for (int i = 0; i < kMinutes; ++i) {
      const double before = std::poisson_distribution<int>(45 * rate)(random);
      const double usual = std::poisson_distribution<int>(15 * rate)(random);
      const double jump = std::poisson_distribution<int>(15 * 3 * (rate + 0.5))(random);
      const auto reacted = [&](double latest) {
        const ArrivalWindow minute{60, (before + latest) / 60, 0};
        return ReactedTo({15, latest / 15, 0}, minute).window_seconds == 15;
      };
      chance += reacted(usual) ? 1 : 0;
      jumps += reacted(jump) ? 1 : 0;
    }
    EXPECT_LT(chance, 0.01 * kMinutes) << rate;
    EXPECT_GT(jumps, 0.95 * kMinutes) << rate;
  }
  EXPECT_EQ(ReactedTo({15, 0, 0}, {60, 0, 0}).window_seconds, 60) << "nothing came";
  EXPECT_EQ(ReactedTo({15, 1, 0}, {60, 4, 0}).window_seconds, 60) << "a fall is no jump";
}

}  // namespace
}  // namespace janus::controllers
