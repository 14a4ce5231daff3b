// A world for every reason, with figures that can be computed by hand. A step takes 20 ms, and 0.1
// ms per sequence of an attention instance: 1A1E keeps 100 ms up to 8000 tokens/s, and 85 ms up to
// 7647. Reasons that need more than one role or decision are in decide_test.cc.

#include <gtest/gtest.h>

#include "controllers/scaling/decide.h"
#include "tests/unit/controllers/scaling/worlds.h"

namespace janus::controllers {
namespace {

ScalingPolicy Policy() {
  ScalingPolicy policy;
  policy.tpot = {0.1, 0.5};
  policy.max_batch_per_attention = 4000;
  return policy;
}

// Requests of 100 tokens without prompts.
World Loaded(double time, int m, int n, double tokens_per_second) {
  World world = Seen(time, m, n, tokens_per_second / 100);
  world.arrivals[0].prompt_tokens_per_second = 0;
  world.lengths.output_tokens = 100;
  return world;
}

Outcome Decided(const ScalingPolicy& policy, const World& world, Memory memory = {}) {
  return Decide(Hand(), policy, world, std::move(memory));
}

TEST(Reasons, SloViolatedWhereTheStepIsTooLongForThePresentLoad) {
  const Decision decision = Decided(Policy(), Loaded(0, 1, 1, 9000)).decision;
  EXPECT_EQ(decision.reason, Reason::kSloViolated) << decision.text;
  EXPECT_EQ(decision.verb, Verb::kScale);
  EXPECT_GT(decision.current.tpot_seconds, 0.1);
  EXPECT_LT(decision.current.batch_share, 1) << "sequences have room";
}

TEST(Reasons, SloAtRiskWhereTheLoadWillBeTooMuchBeforeNewInstancesAreReady) {
  ScalingPolicy policy = Policy();
  policy.forecast.kind = ForecastKind::kEwma;
  Outcome out;
  double tokens = 3000;
  for (double time = 0; tokens < 8000 && out.decision.verb == Verb::kHold; time += 15) {
    tokens += 200;
    out = Decided(policy, Loaded(time, 1, 1, tokens), std::move(out.memory));
  }
  EXPECT_EQ(out.decision.reason, Reason::kSloAtRisk) << out.decision.text;
  EXPECT_EQ(out.decision.verb, Verb::kScale);
  EXPECT_LT(tokens, 8000) << "the load of now is still carried";
  EXPECT_GT(out.decision.demand.output_tokens_per_second, 8000) << "the one expected is not";
}

// Nothing keeps a millisecond. The load then gives no direction, and the counts go as far as the
// limits allow.
TEST(Reasons, WhereNothingKeepsTheTargetOnlyTheLimitsSayWhereToGo) {
  ScalingPolicy policy = Policy();
  policy.tpot.seconds = 1e-3;
  policy.attention.max = policy.experts.max = 16;
  policy.ratio_max = Ratio{1, 2};  // an expert instance for two of attention
  const Decision decision = Decided(policy, Loaded(0, 4, 6, 100)).decision;
  EXPECT_EQ(decision.verb, Verb::kScale) << decision.text;
  EXPECT_EQ(decision.target.how.m, 4);
  EXPECT_EQ(decision.target.how.n, 2);
  policy.max_gpus = 10;
  policy.ratio_max.reset();
  policy.attention.instances_per_pod = policy.experts.instances_per_pod = 4;
  const Decision pods = Decided(policy, Loaded(0, 5, 7, 100)).decision;
  EXPECT_EQ(pods.target.how.m, 4) << pods.text;
  EXPECT_EQ(pods.target.how.n, 4);
}

TEST(Reasons, MemoryShortWhereSequencesDoNotFitAlthoughTheStepIsShort) {
  ScalingPolicy policy = Policy();
  policy.max_batch_per_attention = 150;  // 5000 tokens/s x 40 ms are 200
  const Decision decision = Decided(policy, Loaded(0, 1, 1, 5000)).decision;
  EXPECT_EQ(decision.reason, Reason::kMemoryShort) << decision.text;
  EXPECT_EQ(decision.verb, Verb::kScale);
  EXPECT_LT(decision.current.tpot_seconds, 0.1);
  EXPECT_GT(decision.current.batch_share, 1);
}

TEST(Reasons, OutOfBoundsWhereMoreRunsThanThePolicyAllows) {
  ScalingPolicy policy = Policy();
  policy.attention.max = 4;
  const Decision decision = Decided(policy, Loaded(0, 6, 1, 15000)).decision;
  EXPECT_EQ(decision.reason, Reason::kOutOfBounds) << decision.text;
  EXPECT_EQ(decision.verb, Verb::kScale);
  EXPECT_LE(decision.target.how.m, 4);
}

TEST(Reasons, OutOfBoundsWhereNothingServesYet) {
  const Decision decision = Decided(Policy(), Loaded(0, 0, 0, 1000)).decision;
  EXPECT_EQ(decision.reason, Reason::kOutOfBounds) << decision.text;
  EXPECT_EQ(decision.verb, Verb::kScale);
}

TEST(Reasons, SatisfiedWhereNothingCheaperKeepsTheTarget) {
  const Decision decision = Decided(Policy(), Loaded(0, 2, 1, 9000)).decision;
  EXPECT_EQ(decision.reason, Reason::kSatisfied) << decision.text;
  EXPECT_EQ(decision.verb, Verb::kHold);
  EXPECT_EQ(decision.limited_by, Limit::kNone);
}

TEST(Reasons, RateLimitedWhereThePeriodsPodHasBeenAdded) {
  ScalingPolicy policy = Policy();
  policy.attention.up.rules = {{RateRule::Unit::kPods, 1, 60}};
  Outcome out = Decided(policy, Loaded(0, 1, 1, 17000));  // 3A1E would keep 85 ms
  ASSERT_EQ(out.decision.verb, Verb::kScale) << out.decision.text;
  EXPECT_EQ(out.decision.target.how.m, 2);
  EXPECT_EQ(out.decision.limited_by, Limit::kRate);
  out = Decided(policy, Loaded(15, 2, 1, 17000), std::move(out.memory));
  EXPECT_EQ(out.decision.reason, Reason::kRateLimited) << out.decision.text;
  EXPECT_EQ(out.decision.verb, Verb::kHold);
  EXPECT_EQ(out.decision.limited_by, Limit::kRate);
  out = Decided(policy, Loaded(61, 2, 1, 17000), std::move(out.memory));
  EXPECT_EQ(out.decision.target.how.m, 3) << "a new period: " << out.decision.text;
}

// 2A1E carries 8/9 of 17000 tokens/s at 85 ms, and no more is allowed. The text says by which
// limit.
TEST(Reasons, AtMaxWhereMoreIsNeededThanIsAllowed) {
  ScalingPolicy by_count = Policy();
  by_count.attention.max = 2;
  ScalingPolicy by_gpus = Policy();
  by_gpus.max_gpus = 3;
  ScalingPolicy by_ratio = Policy();
  by_ratio.experts.max = 1;
  by_ratio.ratio_min = Ratio{1, 2};
  for (const auto& [policy, limit] :
       {std::pair(by_count, Limit::kMax), {by_gpus, Limit::kMaxGpus}, {by_ratio, Limit::kRatio}}) {
    const Decision decision = Decided(policy, Loaded(0, 2, 1, 17000)).decision;
    EXPECT_EQ(decision.reason, Reason::kAtMax) << decision.text;
    EXPECT_EQ(decision.verb, Verb::kHold);
    EXPECT_EQ(decision.limited_by, limit) << ToString(decision.limited_by);
    EXPECT_NE(decision.text.find("at most 89 % of the load"), std::string::npos) << decision.text;
  }
}

TEST(Reasons, AtMinWhereNothingLessIsAllowed) {
  const Decision decision = Decided(Policy(), Loaded(0, 1, 1, 100)).decision;
  EXPECT_EQ(decision.reason, Reason::kAtMin) << decision.text;
  EXPECT_EQ(decision.verb, Verb::kHold);
  EXPECT_EQ(decision.limited_by, Limit::kMin);
}

// A service of `m` attention and one expert instance on devices `slower` times slower than their
// profile, for an hour. `observed`: the TPOT of requests that end, of which none attains; 0: none
// ends.
Outcome AfterAnHourOnSlowDevices(double slower, int m, double observed) {
  ScalingPolicy policy = Policy();
  policy.tpot = {0.2, 0.95};
  Outcome out;
  for (double time = 0; time <= 3600; time += 15) {
    World world = Loaded(time, m, 1, 100);
    StepSample& step = world.step.emplace();
    step.time_seconds = time;
    step.load = {2, 50, 0, 0};
    step.steps = 100;
    step.seconds = Hand().Step(world.current, step.load);
    for (double* seconds : {&step.seconds.attention, &step.seconds.experts, &step.seconds.exchange,
                            &step.seconds.step}) {
      *seconds *= slower;
    }
    if (observed > 0) {
      world.observed = {observed, std::nullopt, 100, 0};
      world.ended = {100, 0};
    }
    out = Decided(policy, world, std::move(out.memory));
  }
  return out;
}

// Twenty times slower is more than may be learned. One pod of each role carries the load by the
// model, so the bound is not why the target is missed.
TEST(Reasons, ModelErrorWhereTheDeviceIsFarSlowerThanItsProfile) {
  for (const double observed : {0.0, 0.4}) {
    for (const int m : {1, 2}) {  // it does not shrink
      const Outcome out = AfterAnHourOnSlowDevices(20, m, observed);
      const Decision& decision = out.decision;
      EXPECT_EQ(decision.reason, Reason::kModelError) << decision.text;
      EXPECT_EQ(decision.verb, Verb::kHold);
      EXPECT_EQ(decision.limited_by, Limit::kNone);
      EXPECT_NE(decision.text.find("HardwareProfile"), std::string::npos) << decision.text;
      // An error budget that counted the misses would have grown by a quarter in three minutes.
      EXPECT_LE(out.memory.budget.caution, 0.1) << "a larger reserve would not prevent misses";
    }
  }
  EXPECT_EQ(AfterAnHourOnSlowDevices(2.5, 1, 0).decision.reason, Reason::kAtMin) << "it keeps it";
  EXPECT_EQ(AfterAnHourOnSlowDevices(2.5, 2, 0).decision.reason, Reason::kScalingInProgress)
      << "it shrinks";
}

// What is learned is at its bound, and explains the steps. Requests that took longer had a burst.
TEST(Reasons, NoModelErrorWhereTheStepsAreAsLongAsPredicted) {
  const Decision decision = AfterAnHourOnSlowDevices(4.3, 1, 0.4).decision;
  EXPECT_GE(decision.corrections.step, 2);
  EXPECT_NE(decision.reason, Reason::kModelError) << decision.text;
}

// Conditions of objects, logs and docs/scaling.md use these words.
TEST(Reasons, EachHasItsName) {
  const std::pair<Reason, std::string_view> names[] = {
      {Reason::kSloViolated, "SLOViolated"},
      {Reason::kSloAtRisk, "SLOAtRisk"},
      {Reason::kMemoryShort, "MemoryShort"},
      {Reason::kOutOfBounds, "OutOfBounds"},
      {Reason::kCheaper, "Cheaper"},
      {Reason::kUnplaceable, "Unplaceable"},
      {Reason::kNoLongerNeeded, "NoLongerNeeded"},
      {Reason::kSatisfied, "Satisfied"},
      {Reason::kStabilizing, "Stabilizing"},
      {Reason::kScalingInProgress, "ScalingInProgress"},
      {Reason::kRateLimited, "RateLimited"},
      {Reason::kInsufficientCapacity, "InsufficientCapacity"},
      {Reason::kAtMax, "AtMax"},
      {Reason::kAtMin, "AtMin"},
      {Reason::kModelError, "ModelError"},
      {Reason::kImpossibleSlo, "ImpossibleSLO"},
      {Reason::kNoMetrics, "NoMetrics"},
      {Reason::kBadStatistics, "BadStatistics"},
      {Reason::kInvalidPolicy, "InvalidPolicy"},
      {Reason::kRollout, "Rollout"},
      {Reason::kPaused, "Paused"},
      {Reason::kAdvisory, "Advisory"}};
  EXPECT_EQ(std::size(names), static_cast<size_t>(Reason::kAdvisory) + 1) << "a reason is missing";
  for (const auto& [reason, name] : names) EXPECT_EQ(ToString(reason), name);
}

TEST(Limits, EachHasItsName) {
  const std::pair<Limit, std::string_view> names[] = {
      {Limit::kNone, "None"},        {Limit::kMin, "Min"},     {Limit::kMax, "Max"},
      {Limit::kMaxGpus, "MaxGPUs"},  {Limit::kRatio, "Ratio"}, {Limit::kRate, "Rate"},
      {Limit::kCapacity, "Capacity"}};
  EXPECT_EQ(std::size(names), static_cast<size_t>(Limit::kCapacity) + 1) << "a limit is missing";
  for (const auto& [limit, name] : names) EXPECT_EQ(ToString(limit), name);
}

}  // namespace
}  // namespace janus::controllers
