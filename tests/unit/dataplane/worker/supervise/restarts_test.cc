#include "dataplane/worker/supervise/restarts.h"

#include <gtest/gtest.h>

namespace janus::dataplane {
namespace {

constexpr MonotonicTime kStart{std::chrono::hours(1)};

TEST(Restarts, TheThirdEndWithinAMinuteIsTheLast) {
  Restarts restarts(4);
  EXPECT_TRUE(restarts.Ended(1, kStart));
  EXPECT_TRUE(restarts.Ended(3, kStart + std::chrono::seconds(59)));
  EXPECT_FALSE(restarts.Ended(1, kStart + std::chrono::seconds(60)));
  EXPECT_EQ(restarts.counts(), (std::vector<uint64_t>{0, 1, 0, 1})) << "the last is no restart";
}

TEST(Restarts, EndsThatAreFartherApartAreAnyNumber) {
  Restarts restarts(1);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(restarts.Ended(0, kStart + i * std::chrono::seconds(31))) << i;
  }
  EXPECT_EQ(restarts.counts(), (std::vector<uint64_t>{100}));
}

TEST(Silences, ThreeInARowAreAHang) {
  Silences silences(2);
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(silences.Asked(1, false));
    EXPECT_FALSE(silences.Asked(1, false));
    EXPECT_FALSE(silences.Asked(0, false)) << "each for itself";
    EXPECT_FALSE(silences.Asked(1, true));
    EXPECT_FALSE(silences.Asked(0, true));
  }
  EXPECT_FALSE(silences.Asked(0, false));
  EXPECT_FALSE(silences.Asked(0, false));
  silences.Forget(0);
  EXPECT_FALSE(silences.Asked(0, false)) << "another process";
  EXPECT_FALSE(silences.Asked(0, false));
  EXPECT_TRUE(silences.Asked(0, false));
}

}  // namespace
}  // namespace janus::dataplane
