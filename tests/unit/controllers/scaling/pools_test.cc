#include <gtest/gtest.h>

#include "controllers/scaling/cheapest.h"
#include "controllers/scaling/decide.h"
#include "controllers/scaling/log.h"
#include "tests/unit/controllers/plan/settings.h"
#include "tests/unit/controllers/scaling/worlds.h"

namespace janus::controllers {
namespace {

// Rows go directly to every expert instance, which limits one pool.
const Predictor& Direct() {
  static const Predictor predictor = [] {
    PredictorOptions options;
    options.max_attention = options.max_experts = 64;
    options.max_micro_batches = 4;
    return *Predictor::Create(On("deepseek-v3", "H200"), options);
  }();
  return predictor;
}

ScalingPolicy Policy(int max_pools) {
  ScalingPolicy policy;
  policy.tpot.seconds = 0.1;
  policy.attention.max = policy.experts.max = 256;
  policy.max_batch_per_attention = 1024;
  policy.max_pools = max_pools;
  return policy;
}

// Prompts are short, so that decoding decides.
World Busy(double time, const Counts& at, double requests_per_second) {
  World world = Seen(time, at.Attention(), at.Experts(), requests_per_second);
  world.arrivals[0].prompt_tokens_per_second = requests_per_second;
  world.current.m = at.m;
  world.current.n = at.n;
  world.current.pools = at.pools;
  return world;
}

TEST(Pools, CarryWhatOneCannot) {
  const World world = Busy(0, {8, 16}, 600);
  const Decision one = Decide(Direct(), Policy(1), world, {}).decision;
  EXPECT_EQ(one.limited_by, Limit::kMax) << one.text;
  const Decision more = Decide(Direct(), Policy(8), world, {}).decision;
  ASSERT_EQ(more.verb, Verb::kScale) << more.text;
  EXPECT_EQ(more.limited_by, Limit::kNone);
  EXPECT_GT(more.target.how.pools, 2) << more.text;
  EXPECT_NE(more.text.find(" x "), std::string::npos) << more.text;
  EXPECT_LE(more.chosen.tpot_seconds, 0.1);
  EXPECT_EQ(more.chosen.how.pools, more.target.how.pools);
}

// A pool under its share of a demand is judged like a separate service with that demand, except for
// the fluctuation, which is smaller for all pools together.
TEST(Pools, KeepWhatEachKeepsOfItsShare) {
  Demand demand;
  demand.requests_per_second = 100;
  demand.output_tokens_per_second = 40'000;
  demand.prompt_tokens_per_second = 100;
  demand.context = 1200;
  const ScalingPolicy policy = Policy(4);
  int differ = 0;
  for (int m = 2; m < 24; ++m) {
    for (int n = 8; n < 24; ++n) {
      const bool each = Direct().Keeps(m, n, Scaled(demand, 0.25), policy, 0.85);
      const bool all = Direct().Keeps({m, n, 4}, demand, policy, 0.85);
      EXPECT_TRUE(all || !each) << m << "A" << n << "E";
      differ += all != each ? 1 : 0;
    }
  }
  EXPECT_LT(differ, 30);
}

TEST(Pools, AreNeverFewerThanThePolicyAsksFor) {
  ScalingPolicy policy = Policy(4);
  policy.min_pools = 2;
  const CountBounds bounds = BoundsOf(Direct(), policy);
  EXPECT_FALSE(IsAllowed(bounds, Direct(), {8, 16, 1}));
  EXPECT_TRUE(IsAllowed(bounds, Direct(), {8, 16, 2}));
  EXPECT_EQ(NearestAllowed(bounds, Direct(), {8, 16, 1})->pools, 2);
  const Decision grows = Decide(Direct(), policy, Busy(0, {8, 16}, 1), {}).decision;
  ASSERT_EQ(grows.verb, Verb::kScale) << grows.text;
  EXPECT_EQ(grows.reason, Reason::kOutOfBounds);
  EXPECT_EQ(grows.target.how.pools, 2);
  policy.min_pools = 5;
  EXPECT_EQ(Validate(policy).code(), StatusCode::kInvalidArgument);
}

TEST(Pools, AreNeverMoreThanTheGpus) {
  ScalingPolicy policy = Policy(8);
  policy.max_gpus = 4;  // too few for one
  EXPECT_FALSE(LargestAllowed(BoundsOf(Direct(), policy), Direct()));
}

TEST(Pools, ATargetThatNoneKeepsIsNamed) {
  ScalingPolicy policy = Policy(4);
  policy.min_pools = 2;
  policy.tpot.seconds = 1e-4;
  const Decision why = Decide(Direct(), policy, Busy(0, {8, 16, 2}, 1), {}).decision;
  EXPECT_EQ(why.reason, Reason::kImpossibleSlo) << why.text;
}

TEST(Pools, AreNotChangedForNothing) {
  const ScalingPolicy policy = Policy(8);
  Memory memory;
  Counts at = {8, 16};
  int changes = 0;
  for (int i = 1; i <= 120; ++i) {
    Outcome out = Decide(Direct(), policy, Busy(15 * i, at, 300), std::move(memory));
    memory = std::move(out.memory);
    if (out.decision.verb == Verb::kHold) continue;
    const Configuration& how = out.decision.target.how;
    at = {how.m, how.n, how.pools};
    ++changes;
  }
  EXPECT_LE(changes, 4);
  EXPECT_GT(at.pools, 1);
}

TEST(Pools, AWorldWithThemIsReplayed) {
  World world = Busy(10, {4, 12, 3}, 20);
  world.now.kv_tokens_running = 12345;
  world.in_flight = InFlight{4, 12, 5, 4};
  const auto read = ParseWorld(ToLine(world));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read, world);
}

// While instances start, a load that keeps rising gets an answer; an unchanged load does not.
TEST(Growth, ASecondActionAnswersALoadThatRisesFurther) {
  const ScalingPolicy policy = Policy(8);
  const Counts at = {8, 16};
  Outcome out = Decide(Direct(), policy, Busy(0, at, 300), {});
  ASSERT_EQ(out.decision.verb, Verb::kScale);
  const Configuration first = out.decision.target.how;
  out = Decide(Direct(), policy, Busy(15, at, 300), std::move(out.memory));
  EXPECT_EQ(out.decision.reason, Reason::kScalingInProgress) << out.decision.text;
  out = Decide(Direct(), policy, Busy(30, at, 700), std::move(out.memory));
  ASSERT_EQ(out.decision.verb, Verb::kScale) << out.decision.text;
  const Configuration second = out.decision.target.how;
  EXPECT_GE(second.AttentionGpus(), first.AttentionGpus());
  EXPECT_GE(second.ExpertGpus(), first.ExpertGpus());
  EXPECT_GT(second.Gpus(), first.Gpus());
  ASSERT_EQ(out.memory.pending.size(), 2u);
  EXPECT_EQ(Decide(Direct(), policy, Busy(45, at, 1400), out.memory).decision.reason,
            Reason::kScalingInProgress)
      << "two at a time";
  // First one action is fulfilled, then the other.
  out = Decide(Direct(), policy, Busy(120, {first.m, first.n, first.pools}, 700),
               std::move(out.memory));
  EXPECT_EQ(out.memory.pending.size(), 1u);
  out = Decide(Direct(), policy, Busy(150, {second.m, second.n, second.pools}, 700),
               std::move(out.memory));
  EXPECT_TRUE(out.memory.pending.empty());
}

// Keys are short by a factor of 13: attention grows, and neither role shrinks.
TEST(Growth, WhatIsShortIsNotTakenFrom) {
  for (const double context : {60'000.0, 120'000.0, 200'000.0}) {
    World world = Busy(0, {15, 9}, 60);
    world.now.running = 2000;
    world.now.kv_tokens_used = 2000 * context;
    world.now.kv_tokens_running = 2000 * context;
    const Decision decision = Decide(Direct(), Policy(8), world, {}).decision;
    ASSERT_EQ(decision.verb, Verb::kScale) << decision.text;
    EXPECT_GT(decision.target.how.AttentionGpus(), 15) << decision.text;
    EXPECT_GE(decision.target.how.ExpertGpus(), 9) << decision.text;
  }
}

}  // namespace
}  // namespace janus::controllers
