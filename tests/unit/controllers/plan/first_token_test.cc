#include "controllers/plan/first_token.h"

#include <gtest/gtest.h>

#include <cmath>

#include "controllers/plan/prefill.h"

namespace janus::controllers {
namespace {

// A step takes 10 ms, 0.1 ms per decode row and 0.01 ms per prompt row.
Stepper ByHand(double most_sequences) {
  return {
      [](const StepLoad& load) { return 0.01 + 1e-4 * load.decode_rows + 1e-5 * load.prompt_rows; },
      1000, most_sequences, 1};
}

PlanGoal Asking(double requests_per_second) {
  PlanGoal goal;
  goal.tpot_seconds = 0.1;
  goal.traffic = {requests_per_second, 1000, 200};
  return goal;
}

// 10 requests/s: t = 10 ms + 0.1 ms x 2000 t + 0.01 ms x 10000 t, so t = 10 ms / 0.7.
TEST(FirstTokenOf, SettlesWhereLoadAndStepAgree) {
  const FirstToken token = FirstTokenOf(Asking(10), ByHand(64));
  EXPECT_EQ(token.why_not, "");
  EXPECT_NEAR(token.tpot_seconds, 0.01 / 0.7, 2e-6);
  EXPECT_NEAR(token.decoding, 2000 * 0.01 / 0.7, 1e-2);
  const double rows = std::floor((0.1 - 0.01 - 1e-4 * token.decoding) / 1e-5);
  EXPECT_NEAR(token.prompt_rows, rows, 1);
  // One instance and exponential lengths: an M/M/1 queue with mu = rows per second / 1000, and a
  // step.
  const double mu = token.prompt_rows / 0.1 / 1000;
  EXPECT_NEAR(token.seconds, std::log(20) / (mu - 10) + 0.1, 0.01 * token.seconds);
}

// 29 sequences decode. A plan that takes fewer at once does not carry them.
TEST(FirstTokenOf, ALoadOfMoreSequencesThanThePlanTakesIsNotCarried) {
  const FirstToken token = FirstTokenOf(Asking(10), ByHand(28));
  EXPECT_EQ(token.why_not, "29 sequences decode while prompts are computed, and the plan holds 28");
  EXPECT_TRUE(std::isinf(token.seconds));
  EXPECT_EQ(FirstTokenOf(Asking(10), ByHand(29)).why_not, "");
}

// 20 at once, in steps of 12 ms.
TEST(FirstTokenOf, ALoadOfMoreTokensThanThePlanDecodesIsNotCarried) {
  const FirstToken token = FirstTokenOf(Asking(10), ByHand(20));
  EXPECT_EQ(token.why_not, "the traffic needs 2000 tokens/s, and the plan decodes at most 1667");
  EXPECT_TRUE(std::isinf(token.seconds));
}

// At 40 requests/s, the load that arrives within a step of 100 ms takes 10 + 80 + 40 ms.
TEST(FirstTokenOf, ALoadThatNoStepHasRoomForIsNotCarried) {
  const FirstToken token = FirstTokenOf(Asking(40), ByHand(1e6));
  EXPECT_EQ(token.why_not,
            "a step of 100 ms is too short for the requests that arrive in it, which take 130 ms");
  EXPECT_TRUE(std::isinf(token.seconds));
}

TEST(FirstTokenOf, ComesLaterWithLoadAndWithUnevenPrompts) {
  double before = 0;
  for (const double rate : {0.01, 1., 10., 20., 30.}) {
    const FirstToken token = FirstTokenOf(Asking(rate), ByHand(1e6));
    EXPECT_GT(token.seconds, before) << rate;
    before = token.seconds;
  }
  PlanGoal even = Asking(20);
  even.traffic.prompt_law = {1};
  PlanGoal uneven = Asking(20);
  uneven.traffic.prompt_law = LawOfLengths({1, 1, 1, 1, 1, 1, 1, 1, 1, 20});
  const double of_even = FirstTokenOf(even, ByHand(1e6)).seconds;
  EXPECT_LT(of_even, FirstTokenOf(Asking(20), ByHand(1e6)).seconds);
  EXPECT_GT(FirstTokenOf(uneven, ByHand(1e6)).seconds, 1.4 * of_even);
}

TEST(MayHaveRoom, IsNeverDeniedWhereThereIs) {
  int denied = 0;
  for (const double rate : {1., 5., 10., 20., 26., 40.}) {
    const FirstToken token = FirstTokenOf(Asking(rate), ByHand(1e6));
    EXPECT_TRUE(MayHaveRoom(Asking(rate), ByHand(1e6), token.prompt_rows)) << rate;
    EXPECT_FALSE(MayHaveRoom(Asking(rate), ByHand(1e6), 9001)) << "a step takes 100 ms with 9000";
    denied += MayHaveRoom(Asking(rate), ByHand(1e6), 1.1 * token.prompt_rows + 1) ? 0 : 1;
  }
  EXPECT_GT(denied, 2);
}

TEST(WhyMissed, SaysWhatIsWanted) {
  PlanGoal goal = Asking(10);
  const FirstToken token = FirstTokenOf(goal, ByHand(64));
  EXPECT_EQ(WhyMissed(goal, token), "") << "nothing is asked of first tokens";
  goal.ttft_seconds = token.seconds + 0.001;
  EXPECT_EQ(WhyMissed(goal, token), "");
  goal.ttft_seconds = 0.12;
  EXPECT_TRUE(WhyMissed(goal, token).starts_with("the first token takes "));
  EXPECT_NE(WhyMissed(goal, token).find(" s, the target is 0.12 s"), std::string::npos);
  EXPECT_EQ(WhyMissed(goal, FirstTokenOf(goal, ByHand(20))),
            "no first token: the traffic needs 2000 tokens/s, and the plan decodes at most 1667");
}

TEST(PromptLaw, ExponentialIsWhatIsKnownOfAMean) {
  const std::span<const double> law = PromptLawOf({});
  double sum = 0;
  for (const double length : law) sum += length;
  EXPECT_NEAR(sum / static_cast<double>(law.size()), 1, 1e-12);
  EXPECT_NEAR(SquaredVariation(law), 1, 0.01);
}

TEST(PromptLaw, OfLengthsKeepsMeanOrderAndVariation) {
  EXPECT_EQ(LawOfLengths({30, 10, 20}), (std::vector<double>{0.5, 1, 1.5}));
  std::vector<double> lengths;
  for (int i = 1000; i > 0; --i) lengths.push_back(i);
  const std::vector<double> law = LawOfLengths(lengths);
  EXPECT_EQ(law.size(), 256u);
  EXPECT_TRUE(std::is_sorted(law.begin(), law.end()));
  EXPECT_NEAR(SquaredVariation(law), 1.0 / 3, 0.002);
  EXPECT_NEAR(law[243], 2 * 0.95, 0.01) << "its 95th percentile";
}

}  // namespace
}  // namespace janus::controllers
