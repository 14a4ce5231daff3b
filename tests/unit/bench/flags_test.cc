#include "bench/flags.h"

#include <gtest/gtest.h>

namespace janus::bench {
namespace {

struct Bench {
  int steps = 40;
  double share = 1.25;

  // The error text; empty: the flags are accepted.
  std::string Take(const std::vector<std::string>& args) {
    testing::internal::CaptureStderr();
    const bool is_taken = TakeFlags(
        "some_bench", args, {NumberFlag("--steps", 4, &steps), NumberFlag("--share", 1.0, &share)});
    std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(is_taken, said.empty()) << said;
    return said;
  }
};

TEST(TakeFlags, TakesWhatIsThere) {
  Bench bench;
  EXPECT_EQ(bench.Take({}), "");
  EXPECT_EQ(bench.Take({"--share", "1.5", "--steps", "8"}), "");
  EXPECT_EQ(bench.steps, 8);
  EXPECT_EQ(bench.share, 1.5);
}

TEST(TakeFlags, SaysWhichThereAreWhereOneIsMisspelt) {
  Bench bench;
  EXPECT_EQ(bench.Take({"--steps", "8", "--shrae", "2"}),
            "some_bench: no flag '--shrae'; there are --steps --share\n");
  EXPECT_EQ(bench.Take({"--step"}), "some_bench: no flag '--step'; there are --steps --share\n");
}

TEST(TakeFlags, SaysWhatAValueIsToBe) {
  Bench bench;
  EXPECT_EQ(bench.Take({"--steps"}), "some_bench: --steps wants a number of at least 4\n");
  for (const char* value : {"3", "x", "8x", "", "99999999999", "4.5"}) {
    EXPECT_EQ(
        bench.Take({"--steps", value}),
        std::string("some_bench: --steps wants a number of at least 4, not '") + value + "'\n");
  }
  EXPECT_EQ(bench.Take({"--share", "nan"}),
            "some_bench: --share wants a number of at least 1, not 'nan'\n");
  EXPECT_EQ(bench.steps, 40);
}

TEST(TakeRounds, TakesOneNumberAndNothingElse) {
  int rounds = 300;
  EXPECT_TRUE(TakeRounds("some_bench", {}, &rounds));
  EXPECT_EQ(rounds, 300);
  EXPECT_TRUE(TakeRounds("some_bench", {"20"}, &rounds));
  EXPECT_EQ(rounds, 20);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(TakeRounds("some_bench", {"schedule"}, &rounds));
  EXPECT_FALSE(TakeRounds("some_bench", {"--rounds", "20"}, &rounds));
  EXPECT_FALSE(TakeRounds("some_bench", {"20", "more"}, &rounds));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "some_bench: the only argument is rounds, a number of at least 1, not 'schedule'\n"
            "some_bench: the only argument is rounds, a number of at least 1, not '--rounds'\n"
            "some_bench: the only argument is rounds, a number of at least 1, not 'more'\n");
}

}  // namespace
}  // namespace janus::bench
