#include "common/doorbell.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/time_scale.h"

namespace janus {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr WaitPolicy kSleepAtOnce{.spin = std::chrono::microseconds(0), .yields = 0};

TEST(Doorbell, WakesASleeper) {
  Doorbell bell;
  std::atomic<bool> ready{false};
  std::jthread ringer([&] {
    ready.store(true, std::memory_order_release);
    bell.Ring();
  });
  EXPECT_TRUE(WaitFor(bell, kSleepAtOnce, MonotonicClock::now() + Scaled(seconds(30)),
                      [&] { return ready.load(std::memory_order_acquire); }));
}

TEST(Doorbell, LosesNoRingInALongPingPong) {
  Doorbell to_a, to_b;
  std::atomic<int> turn{0};
  constexpr int kRounds = 20000;
  const auto play = [&](Doorbell& mine, Doorbell& theirs, int parity) {
    for (int i = parity; i < kRounds; i += 2) {
      ASSERT_TRUE(WaitFor(mine, kSleepAtOnce, MonotonicClock::now() + Scaled(seconds(30)),
                          [&] { return turn.load(std::memory_order_acquire) == i; }));
      turn.store(i + 1, std::memory_order_release);
      theirs.Ring();
    }
  };
  std::jthread b([&] { play(to_b, to_a, 1); });
  play(to_a, to_b, 0);
  b.join();
  EXPECT_EQ(turn.load(), kRounds);
}

TEST(Doorbell, GivesUpAtTheDeadline) {
  Doorbell bell;
  const MonotonicTime deadline = MonotonicClock::now() + milliseconds(5);
  EXPECT_FALSE(WaitFor(bell, WaitPolicy{}, deadline, [] { return false; }));
  EXPECT_GE(MonotonicClock::now(), deadline);
}

}  // namespace
}  // namespace janus
