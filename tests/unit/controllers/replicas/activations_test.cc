#include "controllers/replicas/activations.h"

#include <gtest/gtest.h>

namespace janus::controllers {
namespace {

// Four tokens with two of four experts each.
RoutingLayer Small() {
  return {4, 2, {0, 1, 0, 2, 0, 1, 3, 0}};
}

TEST(Routing, BrokenRoutingIsNamedByTokenAndExpert) {
  EXPECT_TRUE(Validate(Small()).ok());
  EXPECT_EQ(Validate(RoutingLayer{4, 2, {0, 1, 2, 4}}).message(),
            "routing: token 1 chose expert 4 of 4");
  EXPECT_EQ(Validate(RoutingLayer{4, 2, {0, 1, 2, 2}}).message(),
            "routing: token 1 chose expert 2 twice");
  EXPECT_FALSE(Validate(RoutingLayer{4, 2, {0, 1, 2}}).ok());
  EXPECT_FALSE(Validate(RoutingLayer{4, 2, {}}).ok());
  EXPECT_FALSE(Validate(RoutingLayer{4, 5, {0, 1, 2, 3, 3}}).ok());
}

TEST(SampleActivations, CountsPopularityAndCoactivation) {
  const LayerActivations sampled = SampleActivations(Small(), 1, 4, 1);
  EXPECT_EQ(sampled.rows, (std::vector<double>{4, 2, 1, 1}));
  const auto together = [&](size_t a, size_t b) { return sampled.together[a * 4 + b]; };
  EXPECT_EQ(together(0, 1), 2);
  EXPECT_EQ(together(1, 0), 2);
  EXPECT_EQ(together(0, 3), 1);
  EXPECT_EQ(together(1, 2), 0);
  EXPECT_EQ(together(0, 0), 0);
}

TEST(SampleActivations, AStepOfAllTokensHasAllExpertsAscending) {
  const LayerActivations sampled = SampleActivations(Small(), 4, 3, 1);
  ASSERT_EQ(sampled.steps.size(), 3u);
  for (const auto& step : sampled.steps) EXPECT_EQ(step, (std::vector<uint16_t>{0, 1, 2, 3}));
  EXPECT_EQ(ExpectedActivated(sampled), 4);
}

TEST(StepsOfExperts, CountsAStepOnceForEachOfItsExperts) {
  LayerActivations a;
  a.experts = 4;
  a.steps = {{0, 1}, {0, 3}, {0}};
  EXPECT_EQ(StepsOfExperts(a), (std::vector<double>{3, 1, 0, 1}));
}

TEST(SampleActivations, DealsEveryTokenOnceBeforeAnyTwice) {
  const LayerActivations sampled = SampleActivations(Small(), 1, 4, 9);
  int with_three = 0;
  for (const auto& step : sampled.steps) {
    EXPECT_EQ(step.size(), 2u);
    with_three += step[1] == 3 ? 1 : 0;
  }
  EXPECT_EQ(with_three, 1) << "expert 3 is in one token of four";
}

TEST(SampleActivations, TheSameSeedSamplesTheSame) {
  EXPECT_EQ(SampleActivations(Small(), 2, 8, 3).steps, SampleActivations(Small(), 2, 8, 3).steps);
}

}  // namespace
}  // namespace janus::controllers
