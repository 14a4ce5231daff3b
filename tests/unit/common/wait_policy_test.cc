#include "common/wait_policy.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace janus {
namespace {

using std::chrono::microseconds;

TEST(WaitPolicy, SpinsAsLongAsAWakeCostsWhereEveryThreadHasACore) {
  EXPECT_EQ(PolicyFor(4, 4, microseconds(7)).spin, microseconds(7));
  EXPECT_EQ(PolicyFor(5, 4, microseconds(7)).spin, microseconds(0));
}

TEST(WaitPolicy, ReadsAQuota) {
  EXPECT_EQ(CoresOfQuota("200000 100000\n"), 2.0);
  EXPECT_EQ(CoresOfQuota("50000 100000\n"), 0.5);
  for (const char* none : {"max 100000\n", "", "12", "0 100000", "-5 100000", "7 0", "7 x"}) {
    EXPECT_EQ(CoresOfQuota(none), std::nullopt) << none;
  }
}

TEST(WaitPolicy, CountsTheCoresOfTheAffinityMask) {
  int all = 0, one = 0;
  std::jthread([&] {
    all = UsableCores();
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    one = UsableCores();
  }).join();
  EXPECT_GE(all, 1);
  EXPECT_EQ(one, 1);
}

TEST(WaitPolicy, AWakeIsHalfARoundInTheMiddle) {
  using namespace std::chrono_literals;  // NOLINT
  EXPECT_EQ(WakeOf({10us}), 5us);
  EXPECT_EQ(WakeOf({12us, 10us, 14us}), 6us);
  EXPECT_EQ(WakeOf({10us, 9s, 10us, 10us, 8s}), 5us) << "the disturbed rounds are the fewer";
  // Bounded, so that a permanently disturbed machine has a limited effect.
  EXPECT_EQ(WakeOf({1ns}), 1us);
  EXPECT_EQ(WakeOf({9s}), 200us);
}

}  // namespace
}  // namespace janus
