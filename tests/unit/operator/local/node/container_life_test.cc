#include "operator/local/node/container_life.h"

#include <gtest/gtest.h>

namespace janus::control {
namespace {

using namespace std::chrono_literals;

constexpr MonotonicTime kBegin{100h};
constexpr WallTime kWall{200h};

class ContainerLifeTest : public testing::Test {
 protected:
  // Runs for that time and ends; returns the pause before the next start.
  Seconds RunFor(std::chrono::seconds time) {
    life_.Started(now_, kWall);
    now_ += time;
    life_.Ended(ContainerEnd(), now_);
    return *life_.start_at() - now_;
  }

  MonotonicTime now_ = kBegin;
  ContainerLife life_{{.first = 2s, .longest = 9s, .forgotten_after = 60s}};
};

TEST_F(ContainerLifeTest, IsStartedAtOnce) {
  EXPECT_FALSE(life_.is_running());
  EXPECT_FALSE(life_.is_pausing(kBegin));
  ASSERT_TRUE(life_.start_at());
  EXPECT_LE(*life_.start_at(), kBegin);
  EXPECT_EQ(life_.restarts(), 0);
  EXPECT_FALSE(life_.last_end());
}

TEST_F(ContainerLifeTest, RunsWithoutADateToStart) {
  life_.Started(kBegin, kWall);
  EXPECT_TRUE(life_.is_running());
  EXPECT_FALSE(life_.start_at());
  EXPECT_FALSE(life_.is_pausing(kBegin));
  EXPECT_EQ(life_.started(), kWall);
  EXPECT_EQ(life_.restarts(), 0);
}

TEST_F(ContainerLifeTest, ItsFirstRestartIsAtOnceAndPausesDoubleUpToTheLongest) {
  EXPECT_EQ(RunFor(1s), 0s);
  EXPECT_FALSE(life_.is_pausing(now_));
  EXPECT_EQ(RunFor(1s), 2s);
  EXPECT_TRUE(life_.is_pausing(now_));
  EXPECT_FALSE(life_.is_pausing(now_ + 2s));
  EXPECT_EQ(RunFor(1s), 4s);
  EXPECT_EQ(RunFor(59s), 8s);
  EXPECT_EQ(RunFor(1s), 9s);
  EXPECT_EQ(RunFor(1s), 9s);
  EXPECT_EQ(life_.pause(), 9s);
  EXPECT_EQ(life_.restarts(), 5);
}

TEST_F(ContainerLifeTest, AStableRunIsForgivenAllBefore) {
  RunFor(1s);
  RunFor(1s);
  EXPECT_EQ(RunFor(1s), 4s);
  EXPECT_EQ(RunFor(60s), 0s);
  EXPECT_EQ(RunFor(1s), 2s);
}

TEST_F(ContainerLifeTest, StartsThatFailPauseAlikeAndAreNoRestarts) {
  const auto fail = [&] {
    life_.Ended({128, 0, "no such file", kWall, kWall}, now_);
    return *life_.start_at() - now_;
  };
  EXPECT_EQ(fail(), 0s);
  now_ += 100s;  // it was waiting, not running
  EXPECT_EQ(fail(), 2s);
  now_ += 100s;
  EXPECT_EQ(fail(), 4s);
  EXPECT_EQ(life_.restarts(), 0);
  EXPECT_EQ(life_.last_end()->exit_code, 128);
  life_.Started(now_, kWall);
  EXPECT_EQ(life_.restarts(), 0);
}

TEST_F(ContainerLifeTest, KeepsItsLastEndWhileItRunsAgain) {
  life_.Started(now_, kWall);
  life_.Ended({0, 9, "killed", kWall, kWall + 1s}, now_);
  EXPECT_FALSE(life_.is_running());
  life_.Started(now_, kWall + 1s);
  ASSERT_TRUE(life_.last_end());
  EXPECT_EQ(life_.last_end()->signal, 9);
  EXPECT_EQ(life_.last_end()->message, "killed");
  EXPECT_EQ(life_.last_end()->finished, kWall + 1s);
  EXPECT_EQ(life_.restarts(), 1);
  EXPECT_EQ(life_.started(), kWall + 1s);
}

}  // namespace
}  // namespace janus::control
