#include "controllers/scaling/decide.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>

#include "controllers/scaling/cheapest.h"
#include "controllers/scaling/demand.h"
#include "controllers/scaling/log.h"
#include "controllers/scaling/rates.h"
#include "tests/support/random.h"
#include "tests/unit/controllers/scaling/worlds.h"

namespace janus::controllers {
namespace {

const Predictor& DeepSeekV3() {
  static const Predictor predictor = [] {
    Setting setting;
    setting.model = *FindModel("deepseek-v3");
    setting.attention = setting.experts =
        *CostsOf(*FindHardware("H200"), setting.model.bytes_per_weight);
    PredictorOptions options;
    options.max_attention = 48;
    options.max_experts = 48;
    options.modes = {ExchangeMode::kDirect, ExchangeMode::kTwoPhaseSingle,
                     ExchangeMode::kTwoPhaseParallel};
    options.gates = {GateSide::kExperts, GateSide::kAttention};
    return *Predictor::Create(setting, options);
  }();
  return predictor;
}

ScalingPolicy Policy() {
  ScalingPolicy policy;
  policy.tpot.seconds = 0.1;
  policy.attention.max = 40;
  policy.experts.max = 40;
  return policy;
}

// Runs decisions every 15 s under a constant load. What is asked for is ready at the next one.
struct Settled {
  Counts counts;
  Memory memory;
  int actions = 0;
  Decision last;
};
Settled Settle(const ScalingPolicy& policy, Counts counts, double rate, int rounds = 80,
               Memory memory = {}) {
  Settled at = {counts, std::move(memory), 0, {}};
  const double begin = std::max(at.memory.last_time_seconds, 0.0);
  for (int i = 1; i <= rounds; ++i) {
    Outcome outcome =
        Decide(DeepSeekV3(), policy, Seen(begin + 15 * i, at.counts.m, at.counts.n, rate),
               std::move(at.memory));
    at.memory = std::move(outcome.memory);
    at.last = std::move(outcome.decision);
    if (at.last.verb == Verb::kHold) continue;
    at.counts = {at.last.target.how.m, at.last.target.how.n};
    ++at.actions;
  }
  return at;
}

// Few experts, of which almost any batch reads all: a step of two micro-batches reads them twice.
const Predictor& Mixtral() {
  static const Predictor predictor = [] {
    Setting setting;
    setting.model = *FindModel("mixtral-8x22b");
    setting.attention = setting.experts =
        *CostsOf(*FindHardware("A100"), setting.model.bytes_per_weight);
    PredictorOptions options;
    options.max_attention = options.max_experts = 8;
    options.rows_for_one = 16;
    options.modes = {ExchangeMode::kDirect};
    options.room = InstanceRoom{20000, 3, 3, 4};
    return *Predictor::Create(setting, options);
  }();
  return predictor;
}

World SeenOfMixtral(double time, int m, int n, int micro_batches, double requests_per_second) {
  World world = Seen(time, m, n, requests_per_second);
  world.arrivals[0].prompt_tokens_per_second = 73 * requests_per_second;
  world.lengths = {.output_tokens = 130, .prompt_squared_variation = 0.14};
  world.current.micro_batches = micro_batches;
  return world;
}

// A service that grew under load went on with two micro-batches when little was left of it. Its
// steps took 110 ms instead of 75, so that a few requests at once made it grow again.
TEST(Decide, MicroBatchesFollowTheLoadWhileTheCountsStay) {
  ScalingPolicy policy = Policy();
  policy.tpot.seconds = 0.12;
  policy.attention.min = 2;
  policy.experts.min = 4;
  Memory memory;
  const auto decide = [&](const World& world) {
    Outcome out = Decide(Mixtral(), policy, world, std::move(memory));
    memory = std::move(out.memory);
    EXPECT_EQ(out.decision.verb, Verb::kHold) << out.decision.text;
    return out.decision.target.how.micro_batches;
  };
  EXPECT_EQ(decide(SeenOfMixtral(0, 2, 4, 2, 0.2)), 1);
  // Its epoch is being prepared.
  EXPECT_EQ(decide(SeenOfMixtral(15, 2, 4, 2, 0.2)), 1);
  EXPECT_EQ(decide(SeenOfMixtral(30, 2, 4, 1, 0.2)), 1);
  EXPECT_EQ(decide(SeenOfMixtral(400, 2, 4, 1, 0.2)), 1);

  // At once, for a load that only two of them carry.
  memory = {};
  policy.attention.min = 3;
  policy.experts.min = 5;
  EXPECT_EQ(decide(SeenOfMixtral(0, 3, 5, 1, 0.2)), 1);
  EXPECT_EQ(decide(SeenOfMixtral(15, 3, 5, 1, 1.1)), 2);
  EXPECT_EQ(decide(SeenOfMixtral(30, 3, 5, 2, 1.1)), 2);
  // The peak would want them back.
  EXPECT_EQ(decide(SeenOfMixtral(45, 3, 5, 2, 0.2)), 2);
  // Too little would be gained.
  EXPECT_EQ(decide(SeenOfMixtral(400, 3, 5, 2, 0.8)), 2);
  EXPECT_EQ(decide(SeenOfMixtral(800, 3, 5, 2, 0.2)), 1);

  policy.is_advisory = true;
  memory = {};
  EXPECT_EQ(decide(SeenOfMixtral(0, 3, 5, 2, 0.2)), 2);
}

// At the most counts, a service went on for hours with more micro-batches than were best, and
// missed its target, because fewer would have missed it too at the peak.
TEST(Decide, FewerMicroBatchesRunWhereNoNumberOfThemKeepsThePeak) {
  ScalingPolicy policy = Policy();
  policy.tpot.seconds = 0.05;
  policy.attention.min = policy.attention.max = 2;
  policy.experts.min = policy.experts.max = 4;
  const Outcome out = Decide(Mixtral(), policy, SeenOfMixtral(0, 2, 4, 2, 0.2), {});
  EXPECT_EQ(out.decision.verb, Verb::kHold) << out.decision.text;
  EXPECT_EQ(out.decision.target.how.micro_batches, 1) << out.decision.text;
}

// A user set another number than the one that still runs.
TEST(Decide, SaysNothingOfMicroBatchesThatAreNoChoice) {
  PredictorOptions options = Mixtral().options();
  options.min_micro_batches = options.max_micro_batches = 2;
  const Predictor only_two = *Predictor::Create(Mixtral().setting(), options);
  ScalingPolicy policy = Policy();
  policy.attention.min = policy.attention.max = 3;
  policy.experts.min = policy.experts.max = 5;
  const Outcome out = Decide(only_two, policy, SeenOfMixtral(0, 3, 5, 1, 0.2), {});
  EXPECT_EQ(out.decision.verb, Verb::kHold) << out.decision.text;
  EXPECT_EQ(out.decision.target.how.micro_batches, 2) << out.decision.text;
  EXPECT_EQ(out.decision.text.find("micro-batches"), std::string::npos) << out.decision.text;
}

// At half of its load, a service ran three micro-batches as predicted, longer than two would have
// taken. It took that for an error of the model, and so it kept three, and twice the instances.
TEST(Decide, StepsOfMoreMicroBatchesThanAreBestAreNoErrorOfTheModel) {
  ScalingPolicy policy = Policy();
  policy.tpot.seconds = 0.12;
  policy.attention.min = policy.attention.max = 3;
  policy.experts.min = policy.experts.max = 5;
  Memory memory;
  int micro_batches = 2;
  for (int tick = 0; tick < 60; ++tick) {
    const double requests_per_second = tick == 0 ? 1.1 : 0.2;
    World world = SeenOfMixtral(15 * tick, 3, 5, micro_batches, requests_per_second);
    const Prediction runs =
        Mixtral().Steady(3, 5, ArrivingDemand(world, 130), policy, {}, 1, micro_batches);
    world.observed.tpot_seconds = runs.tpot_seconds;
    world.observed.tpot_requests = 100;
    world.attention.youngest_ready_seconds = world.experts.youngest_ready_seconds = 1e6;
    Outcome out = Decide(Mixtral(), policy, world, std::move(memory));
    memory = std::move(out.memory);
    EXPECT_NEAR(out.decision.current.tpot_seconds, runs.tpot_seconds, 0.05 * runs.tpot_seconds);
    micro_batches = out.decision.target.how.micro_batches;
  }
  for (const double tail : memory.tails) EXPECT_LT(tail, 1.05);
  EXPECT_EQ(micro_batches, 1);
}

// While prompts wait, workers fill each step up to 95 % of the target. A service took that for an
// error of the model and grew threefold, which makes no such step shorter.
TEST(Decide, StepsThatAreFilledWithPromptsAreNoErrorOfTheModel) {
  const ScalingPolicy policy = Policy();
  const Settled busy = Settle(policy, {8, 24}, 30);
  const auto tail = [&](double tpot_seconds, double prompt_tokens) {
    Memory memory = busy.memory;
    for (int i = 1; i <= 8; ++i) {
      World world = Seen(memory.last_time_seconds + 15, busy.counts.m, busy.counts.n, 10);
      world.arrivals.front().prompt_tokens_per_second = 10 * prompt_tokens;
      world.current.micro_batches = busy.last.target.how.micro_batches;
      world.observed.tpot_seconds = tpot_seconds;
      world.observed.tpot_requests = 400;
      world.attention.youngest_ready_seconds = world.experts.youngest_ready_seconds = 1e6;
      memory = Decide(DeepSeekV3(), policy, world, std::move(memory)).memory;
    }
    return memory.tails.empty() ? 0 : memory.tails.back();
  };
  EXPECT_EQ(tail(0.094, 800), 1);
  EXPECT_GT(tail(0.14, 800), 1.2) << "longer than a step is filled";
  EXPECT_GT(tail(0.094, 1), 1.2) << "prompts are computed elsewhere";
}

// An interval that misses its target may be chance. It added instances, and the next interval,
// which they served, took them away.
TEST(Decide, AServiceGrowsForMissesThatGoOnAndNotForOne) {
  const ScalingPolicy policy = Policy();
  const Settled busy = Settle(policy, {8, 24}, 30);
  const auto actions = [&](int misses) {
    Memory memory = busy.memory;
    Configuration how = busy.last.target.how;
    int found = 0;
    for (int i = 1; i <= 60; ++i) {
      World world = Seen(memory.last_time_seconds + 15, how.m, how.n, 30);
      world.current.micro_batches = how.micro_batches;
      const Prediction runs = DeepSeekV3().Steady({how.m, how.n}, ArrivingDemand(world, 400),
                                                  policy, {}, 1, how.micro_batches);
      world.observed.tpot_seconds = i <= misses ? 0.14 : runs.tpot_seconds;
      world.observed.tpot_requests = 400;
      world.attention.youngest_ready_seconds = world.experts.youngest_ready_seconds = 1e6;
      Outcome out = Decide(DeepSeekV3(), policy, world, std::move(memory));
      memory = std::move(out.memory);
      how = out.decision.target.how;
      found += out.decision.verb == Verb::kScale;
    }
    return found;
  };
  EXPECT_EQ(actions(0), 0);
  EXPECT_EQ(actions(1), 0);
  EXPECT_GT(actions(8), 0);
}

// 7 + 7 instances cost more than 5 + 9 of them by a rounding error, and were exchanged for them.
TEST(Decide, NothingMovesForWhatIsNotCheaper) {
  const ScalingPolicy policy = Policy();
  int equal = 0;
  for (const double requests_per_second : {4.0, 7.0, 10.0, 14.0, 18.0, 22.0, 27.0, 33.0, 40.0}) {
    const Settled best = Settle(policy, {8, 24}, requests_per_second);
    for (int moved = -4; moved <= 4; ++moved) {
      const Counts other = {best.counts.m + moved, best.counts.n - moved};
      if (other.m < 1 || other.n < DeepSeekV3().FewestExperts()) continue;
      Memory memory = best.memory;
      for (int i = 1; i <= 3; ++i) {
        const World world =
            Seen(memory.last_time_seconds + 15, other.m, other.n, requests_per_second);
        const Outcome out = Decide(DeepSeekV3(), policy, world, std::move(memory));
        memory = out.memory;
        equal += out.decision.verb == Verb::kHold;
        if (out.decision.reason != Reason::kCheaper) break;
        ADD_FAILURE() << "from " << other.m << "A" << other.n << "E at " << requests_per_second
                      << ": " << out.decision.text;
      }
    }
  }
  EXPECT_GT(equal, 0);
}

// An epoch is cheap, but each one interrupts streams.
TEST(Decide, MicroBatchesDoNotFollowEveryWaveOfTheLoad) {
  ScalingPolicy policy = Policy();
  policy.tpot.seconds = 0.12;
  policy.attention.min = policy.attention.max = 3;
  policy.experts.min = policy.experts.max = 5;
  Random random(TestSeed());
  for (const double requests_per_second : {0.3, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1}) {
    Memory memory;
    int micro_batches = 1, changes = 0;
    for (int tick = 0; tick < 240; ++tick) {
      const double wave = random.Between(-26, 26) / 100.0;  // 15 requests in an interval
      const World world =
          SeenOfMixtral(15 * tick, 3, 5, micro_batches, requests_per_second * (1 + wave));
      Outcome out = Decide(Mixtral(), policy, world, std::move(memory));
      memory = std::move(out.memory);
      changes += micro_batches != out.decision.target.how.micro_batches;
      micro_batches = out.decision.target.how.micro_batches;
    }
    EXPECT_LE(changes, 4) << "in an hour at " << requests_per_second;
  }
}

TEST(Decide, GrowsAtOnceWhenTheLoadIsTooMuch) {
  const Outcome out = Decide(DeepSeekV3(), Policy(), Seen(0, 1, 8, 60), {});
  EXPECT_EQ(out.decision.verb, Verb::kScale) << out.decision.text;
  EXPECT_GT(out.decision.target.how.m + out.decision.target.how.n, 9);
  EXPECT_EQ(out.memory.pending.size(), 1u);
  ASSERT_FALSE(out.decision.candidates.empty());
  EXPECT_TRUE(out.decision.candidates[0].lost_by.empty());
  EXPECT_FALSE(out.decision.candidates[1].lost_by.empty());
}

// The TPOT is within its target then, and alone would be no reason to grow.
TEST(Decide, SaysThatTheFirstTokenIsWhatComesTooLate) {
  const World world = Seen(0, 6, 16, 25);
  ScalingPolicy policy = Policy();
  const Outcome without = Decide(DeepSeekV3(), policy, world, {});
  EXPECT_NE(without.decision.verb, Verb::kScale) << without.decision.text;
  policy.ttft = LatencyTarget{0.5, 0.95};
  const Outcome with = Decide(DeepSeekV3(), policy, world, {});
  EXPECT_EQ(with.decision.verb, Verb::kScale);
  EXPECT_EQ(with.decision.reason, Reason::kSloViolated);
  EXPECT_NE(with.decision.text.find(", first token "), std::string::npos) << with.decision.text;
}

// With three requests in an interval their percentile is noise, and decisions do not use it. Steps
// and attainment tell of a service that is slower than predicted.
TEST(Decide, AServiceWithFewRequestsIsCorrectedByItsStepsAndMisses) {
  const ScalingPolicy policy = Policy();
  const Settled busy = Settle(policy, {8, 24}, 30);
  const auto run = [&](double step_factor, double attained, int rounds) {
    Outcome out = {{}, busy.memory};
    const double begin = busy.memory.last_time_seconds;
    for (int i = 1; i <= rounds; ++i) {
      World world = Seen(begin + 15 * i, busy.counts.m, busy.counts.n, 30);
      world.current = busy.last.target.how;
      world.observed.tpot_seconds = 0.115;
      world.observed.tpot_requests = 3;
      world.ended = {3, attained};
      const StepLoad load{1000, 1000, 0, 0};
      StepSample& step = world.step.emplace();
      step = {world.time_seconds, load, DeepSeekV3().Step(world.current, load), 100, true};
      step.seconds.step *= step_factor;
      out = Decide(DeepSeekV3(), policy, world, std::move(out.memory));
      if (out.decision.verb == Verb::kScale) break;
    }
    return out;
  };
  const Outcome steps = run(1.3, 3, 20);
  EXPECT_EQ(steps.decision.verb, Verb::kScale) << steps.decision.text;
  EXPECT_GT(steps.decision.target.how.m + steps.decision.target.how.n,
            busy.counts.m + busy.counts.n);
  EXPECT_GT(steps.decision.corrections.step, 1.1);
  const Outcome misses = run(1, 0, 240);
  EXPECT_GT(misses.memory.budget.caution, 0.2);
  // As predicted, and all are kept: nothing to correct, whatever three requests say.
  const Outcome neither = run(1, 3, 20);
  EXPECT_EQ(neither.decision.verb, Verb::kHold) << neither.decision.text;
  EXPECT_TRUE(neither.memory.tails.empty());
}

TEST(Decide, ShrinksOnlyWhenTheWholeWindowAllowsIt) {
  const ScalingPolicy policy = Policy();
  Outcome out = Decide(DeepSeekV3(), policy, Seen(0, 20, 30, 2), {});
  EXPECT_EQ(out.decision.reason, Reason::kStabilizing) << out.decision.text;
  for (int i = 1; i < 20; ++i) {
    out = Decide(DeepSeekV3(), policy, Seen(15 * i, 20, 30, 2), std::move(out.memory));
    EXPECT_EQ(out.decision.reason, Reason::kStabilizing) << i;
  }
  out = Decide(DeepSeekV3(), policy, Seen(300, 20, 30, 2), std::move(out.memory));
  EXPECT_EQ(out.decision.verb, Verb::kScale);
  EXPECT_EQ(out.decision.reason, Reason::kCheaper) << out.decision.text;
}

TEST(Decide, APeakInsideTheWindowKeepsWhatCarriesIt) {
  const ScalingPolicy policy = Policy();
  const Settled busy = Settle(policy, {8, 24}, 30);
  Memory memory = busy.memory;
  const double begin = memory.last_time_seconds;
  for (int i = 1; i <= 15; ++i) {  // 225 of 300 s
    Outcome out =
        Decide(DeepSeekV3(), policy, Seen(begin + 15 * i, busy.counts.m, busy.counts.n, 1), memory);
    EXPECT_EQ(out.decision.verb, Verb::kHold) << out.decision.text;
    memory = std::move(out.memory);
  }
}

TEST(Decide, OfAnUnchangedWorldNothingMore) {
  std::mt19937 random(MixSeed(TestSeed(), 1));
  for (int i = 0; i < 2000; ++i) {
    const World world =
        Seen(1000, 1 + static_cast<int>(random() % 40), 8 + static_cast<int>(random() % 32),
             std::exp2(static_cast<double>(random() % 80) / 10));
    const Outcome first = Decide(DeepSeekV3(), Policy(), world, {});
    const Outcome second = Decide(DeepSeekV3(), Policy(), world, first.memory);
    EXPECT_EQ(second.decision.verb, Verb::kHold);
    EXPECT_EQ(second.memory, first.memory);
    if (first.decision.verb == Verb::kScale) {
      EXPECT_EQ(second.decision.reason, Reason::kScalingInProgress);
    } else {
      EXPECT_EQ(second.decision.reason, first.decision.reason);
    }
  }
}

TEST(Decide, NothingIsAskedForWhileAnActionIsInFlight) {
  std::mt19937 random(MixSeed(TestSeed(), 2));
  for (int i = 0; i < 1000; ++i) {
    World world = Seen(1000, 4, 16, std::exp2(static_cast<double>(random() % 80) / 10));
    world.in_flight = InFlight{4 + static_cast<int>(random() % 9), 17, 990};
    const Outcome out = Decide(DeepSeekV3(), Policy(), world, {});
    EXPECT_EQ(out.decision.verb, Verb::kHold);
    EXPECT_EQ(out.decision.reason, Reason::kScalingInProgress);
  }
}

TEST(Decide, KeepsToTheBoundsAndToWholePods) {
  std::mt19937 random(MixSeed(TestSeed(), 3));
  int scaled = 0;
  for (int i = 0; i < 2000; ++i) {
    ScalingPolicy policy = Policy();
    policy.attention.instances_per_pod = 1 << (random() % 3);
    policy.experts.instances_per_pod = 1 << (random() % 3);
    policy.attention.min = 1 + static_cast<int>(random() % 6);
    policy.attention.max = 8 + static_cast<int>(random() % 30);
    policy.experts.max = 16 + static_cast<int>(random() % 24);
    const CountBounds bounds = BoundsOf(DeepSeekV3(), policy);
    const int m = bounds.min_m + bounds.step_m * static_cast<int>(random() % 3);
    const int n = bounds.min_n + bounds.step_n * static_cast<int>(random() % 3);
    if (!IsAllowed(bounds, DeepSeekV3(), {m, n})) continue;
    const Outcome out =
        Decide(DeepSeekV3(), policy,
               Seen(10, m, n, std::exp2(static_cast<double>(random() % 90) / 10)), {});
    if (out.decision.verb != Verb::kScale) continue;
    ++scaled;
    // Checks against the policy's numbers: wrong computed bounds would allow themselves.
    const Configuration& how = out.decision.target.how;
    EXPECT_GE(how.m, policy.attention.min) << out.decision.text;
    EXPECT_LE(how.m, policy.attention.max) << out.decision.text;
    EXPECT_GE(how.n, policy.experts.min) << out.decision.text;
    EXPECT_LE(how.n, policy.experts.max) << out.decision.text;
    EXPECT_EQ(how.m % policy.attention.instances_per_pod, 0) << out.decision.text;
    EXPECT_EQ(how.n % policy.experts.instances_per_pod, 0) << out.decision.text;
    EXPECT_TRUE(IsAllowed(bounds, DeepSeekV3(), {how.m, how.n})) << out.decision.text;
  }
  EXPECT_GT(scaled, 500);
}

TEST(Decide, MoreLoadNeverMeansFewerGpusAtSteadyState) {
  std::mt19937 random(MixSeed(TestSeed(), 4));
  for (int i = 0; i < 40; ++i) {
    ScalingPolicy policy = Policy();
    if (i % 2 == 1) policy.ttft = LatencyTarget{2, 0.95};
    const Counts start = {1 + static_cast<int>(random() % 40), 8 + static_cast<int>(random() % 32)};
    int before = 0;
    for (double rate = 0.5; rate < 200; rate *= 1.6) {
      const Settled at = Settle(policy, start, rate, 60);
      const int gpus = at.counts.m + at.counts.n;
      EXPECT_GE(gpus, before) << "from " << start.m << "A" << start.n << "E at " << rate << ": "
                              << at.last.text;
      before = gpus;
    }
  }
}

TEST(Decide, SettlesAndThenHolds) {
  std::mt19937 random(MixSeed(TestSeed(), 5));
  for (int i = 0; i < 40; ++i) {
    const Counts start = {1 + static_cast<int>(random() % 40), 8 + static_cast<int>(random() % 32)};
    const double rate = std::exp2(static_cast<double>(random() % 60) / 10);
    const Settled first = Settle(Policy(), start, rate);
    const Settled second = Settle(Policy(), first.counts, rate, 40, first.memory);
    EXPECT_EQ(second.actions, 0) << second.last.text;
    EXPECT_LE(first.actions, 8);
  }
}

TEST(Decide, WhatCannotBePlacedIsWithdrawnAndNotAskedForAgainAtOnce) {
  const ScalingPolicy policy = Policy();
  Outcome out = Decide(DeepSeekV3(), policy, Seen(0, 1, 8, 60), {});
  ASSERT_EQ(out.decision.verb, Verb::kScale);
  out = Decide(DeepSeekV3(), policy, Seen(1201, 1, 8, 60), std::move(out.memory));
  EXPECT_EQ(out.decision.verb, Verb::kWithdraw);
  EXPECT_EQ(out.decision.reason, Reason::kUnplaceable);
  EXPECT_EQ(out.decision.target.how.m, 1);
  out = Decide(DeepSeekV3(), policy, Seen(1216, 1, 8, 60), std::move(out.memory));
  EXPECT_EQ(out.decision.verb, Verb::kHold);
  EXPECT_EQ(out.decision.reason, Reason::kInsufficientCapacity) << out.decision.text;
  out = Decide(DeepSeekV3(), policy, Seen(1802, 1, 8, 60), std::move(out.memory));
  EXPECT_EQ(out.decision.verb, Verb::kScale) << "after its backoff: " << out.decision.text;
}

TEST(Decide, ALateActionThatTheLoadNoLongerNeedsIsGivenUp) {
  const ScalingPolicy policy = Policy();
  Outcome out = Decide(DeepSeekV3(), policy, Seen(0, 1, 8, 60), {});
  for (int i = 1; i <= 50; ++i) {
    out = Decide(DeepSeekV3(), policy, Seen(15 * i, 1, 8, 0.1), std::move(out.memory));
    if (out.decision.verb == Verb::kWithdraw) break;
  }
  EXPECT_EQ(out.decision.reason, Reason::kNoLongerNeeded) << out.decision.text;
}

TEST(Decide, EveryHoldHasItsReason) {
  World paused = Seen(0, 4, 16, 1);
  paused.is_paused = true;
  EXPECT_EQ(Decide(DeepSeekV3(), Policy(), paused, {}).decision.reason, Reason::kPaused);
  World rolling = Seen(0, 4, 16, 1);
  rolling.is_rolling_out = true;
  EXPECT_EQ(Decide(DeepSeekV3(), Policy(), rolling, {}).decision.reason, Reason::kRollout);
  World blind = Seen(0, 4, 16, 1);
  blind.arrivals.clear();
  EXPECT_EQ(Decide(DeepSeekV3(), Policy(), blind, {}).decision.reason, Reason::kNoMetrics);
  ScalingPolicy impossible = Policy();
  impossible.tpot.seconds = 1e-4;
  const Decision no = Decide(DeepSeekV3(), impossible, Seen(0, 4, 16, 1), {}).decision;
  EXPECT_EQ(no.reason, Reason::kImpossibleSlo) << no.text;
  ScalingPolicy advisory = Policy();
  advisory.is_advisory = true;
  const Outcome would = Decide(DeepSeekV3(), advisory, Seen(0, 1, 8, 60), {});
  EXPECT_EQ(would.decision.reason, Reason::kAdvisory);
  EXPECT_TRUE(would.decision.advised);
  EXPECT_TRUE(would.memory.pending.empty());
  ScalingPolicy frozen = Policy();
  frozen.attention.up.select = frozen.experts.up.select = SelectRule::kDisabled;
  EXPECT_EQ(Decide(DeepSeekV3(), frozen, Seen(0, 1, 8, 60), {}).decision.verb, Verb::kHold);
  ScalingPolicy invalid = Policy();
  invalid.aim = 2;
  const Decision wrong = Decide(DeepSeekV3(), invalid, Seen(0, 4, 16, 1), {}).decision;
  EXPECT_EQ(wrong.reason, Reason::kInvalidPolicy);
  EXPECT_NE(wrong.text.find("aim"), std::string::npos);
}

// The text says which target would be possible, even if it is far from what any GPUs reach.
TEST(Decide, AnImpossibleTargetSaysWhatIsBest) {
  for (const double tpot : {1e-6, 1e-4, 5e-3}) {
    ScalingPolicy policy = Policy();
    policy.tpot.seconds = tpot;
    const Decision no = Decide(DeepSeekV3(), policy, Seen(0, 4, 16, 1), {}).decision;
    ASSERT_EQ(no.reason, Reason::kImpossibleSlo) << no.text;
    double best = 0;
    int m = 0, n = 0;
    const char* const at = std::strstr(no.text.c_str(), "TPOT ");
    ASSERT_NE(at, nullptr) << no.text;
    ASSERT_EQ(std::sscanf(at, "TPOT %lf ms at best (%dA%dE)", &best, &m, &n), 3) << no.text;
    ASSERT_TRUE(std::isfinite(best)) << no.text;
    // The model's value for one sequence.
    double least = HUGE_VAL;
    for (const ExchangeMode mode :
         {ExchangeMode::kDirect, ExchangeMode::kTwoPhaseSingle, ExchangeMode::kTwoPhaseParallel}) {
      Configuration how;
      how.m = m;
      how.n = n;
      how.mode = mode;
      least = std::min(least, DeepSeekV3().Step(how, {1, 1000, 0, 0}).step);
    }
    EXPECT_NEAR(best, least * 1e3, 0.05 * best) << no.text;
  }
}

TEST(Decide, ALoadOfWhichHardlyAnyIsCarriedIsNoImpossibleTarget) {
  const Decision no = Decide(DeepSeekV3(), Policy(), Seen(0, 40, 40, 1e6), {}).decision;
  EXPECT_EQ(no.reason, Reason::kAtMax) << no.text;
  EXPECT_EQ(no.limited_by, Limit::kMax);
  EXPECT_NE(no.text.find("less than 2 % of the load"), std::string::npos) << no.text;
}

TEST(Decide, NumbersThatAreNoneAreNamed) {
  for (const double odd :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -1.0}) {
    World world = Seen(0, 4, 16, 1);
    world.now.waiting = odd;
    const Outcome out = Decide(DeepSeekV3(), Policy(), world, {});
    EXPECT_EQ(out.decision.reason, Reason::kBadStatistics);
    EXPECT_NE(out.decision.text.find("waiting is"), std::string::npos) << out.decision.text;
    EXPECT_EQ(out.memory, Memory{}) << "nothing is learned from it";
  }
  World more = Seen(0, 4, 16, 1);
  more.ended = {10, std::numeric_limits<double>::quiet_NaN()};
  Outcome out = Decide(DeepSeekV3(), Policy(), more, {});
  EXPECT_NE(out.decision.text.find("ended_attained is nan"), std::string::npos);
  more.ended = {10, 11};
  out = Decide(DeepSeekV3(), Policy(), more, {});
  EXPECT_EQ(out.decision.reason, Reason::kBadStatistics);
  EXPECT_NE(out.decision.text.find("ended_attained is 11 of 10"), std::string::npos)
      << out.decision.text;
  EXPECT_EQ(out.memory, Memory{});
  out = Decide(DeepSeekV3(), Policy(), Seen(100, 4, 16, 1), {});
  out = Decide(DeepSeekV3(), Policy(), Seen(50, 4, 16, 1), std::move(out.memory));
  EXPECT_EQ(out.decision.reason, Reason::kBadStatistics) << "time went back";
}

TEST(Decide, AReplayedLogGivesTheSameDecisions) {
  std::mt19937 random(MixSeed(TestSeed(), 6));
  std::vector<std::string> log;
  std::vector<std::string> said;
  Memory memory;
  Counts counts = {4, 16};
  for (int i = 1; i <= 300; ++i) {
    World world = Seen(15 * i, counts.m, counts.n,
                       20 + 18 * std::sin(i / 20.0) + static_cast<double>(random() % 100) / 50);
    world.now.running = static_cast<double>(random() % 50);
    world.step = StepSample{15. * i, {200, 1000, 10, 400}, {0.01, 0.02, 0.01, 0.05}, 100, true};
    world.ended = {100, static_cast<double>(80 + random() % 21)};
    log.push_back(ToLine(world));
    Outcome out = Decide(DeepSeekV3(), Policy(), world, std::move(memory));
    said.push_back(out.decision.text);
    memory = std::move(out.memory);
    if (out.decision.verb != Verb::kHold) {
      counts = {out.decision.target.how.m, out.decision.target.how.n};
    }
  }
  Memory again;
  for (size_t i = 0; i < log.size(); ++i) {
    const auto world = ParseWorld(log[i]);
    ASSERT_TRUE(world.ok()) << world.status().ToString();
    EXPECT_EQ(ToLine(*world), log[i]);
    Outcome out = Decide(DeepSeekV3(), Policy(), *world, std::move(again));
    EXPECT_EQ(out.decision.text, said[i]) << i;
    again = std::move(out.memory);
  }
  EXPECT_EQ(again, memory);
}

TEST(Decide, TheExampleOfTheDocs) {
  const Predictor& predictor = Hand();
  ScalingPolicy policy;
  policy.tpot = {0.1, 0.5};
  policy.max_batch_per_attention = 1000;
  Demand demand;
  demand.output_tokens_per_second = 500;
  EXPECT_TRUE(predictor.Keeps(1, 1, demand, policy, 0.85));
  EXPECT_NEAR(predictor.Step({}, {42.5, 1, 0, 0}).step, 0.0243, 1e-4);
  EXPECT_NEAR(predictor.Steady(1, 1, demand, policy).tpot_seconds, 0.0211, 1e-4);
  demand.output_tokens_per_second = 9000;
  EXPECT_NEAR(predictor.Step({}, {765, 1, 0, 0}).step, 0.0965, 1e-4);
  EXPECT_FALSE(predictor.Keeps(1, 1, demand, policy, 1));
  EXPECT_NEAR(predictor.Steady(2, 1, demand, policy).tpot_seconds, 0.0364, 1e-4);
  World world = Seen(0, 1, 1, 90);
  world.arrivals[0].prompt_tokens_per_second = 0;
  world.lengths.output_tokens = 100;
  const Decision decision = Decide(predictor, policy, world, {}).decision;
  EXPECT_EQ(decision.verb, Verb::kScale) << decision.text;
  EXPECT_EQ(decision.target.how.m, 2);
  EXPECT_EQ(decision.target.how.n, 1);
}

// Steps with prompts take at most 95 ms there, and this one takes 97 ms without any.
TEST(Decide, NoPromptFitsIntoAStepThatTakesMoreThanWorkersFill) {
  ScalingPolicy policy;
  policy.tpot = {0.1, 0.5};
  policy.max_batch_per_attention = 1000;
  Demand demand;
  demand.requests_per_second = demand.prompt_tokens_per_second = 1;
  demand.output_tokens_per_second = 7938;
  EXPECT_NEAR(Hand().Steady(1, 1, demand, policy).tpot_seconds, 0.097, 1e-4);
  EXPECT_TRUE(Hand().Keeps(1, 1, demand, policy, 1)) << "without a target for first tokens";
  policy.ttft = LatencyTarget{10, 0.95};
  EXPECT_FALSE(Hand().Keeps(1, 1, demand, policy, 1));
  EXPECT_FALSE(std::isfinite(Hand().Steady(1, 1, demand, policy).ttft_seconds));
  demand.output_tokens_per_second = 7800;  // 91 ms
  EXPECT_TRUE(Hand().Keeps(1, 1, demand, policy, 1));
  EXPECT_TRUE(std::isfinite(Hand().Steady(1, 1, demand, policy).ttft_seconds));
}

TEST(ParseWorld, NamesWhatIsWrong) {
  const std::string line = ToLine(Seen(1, 2, 3, 4));
  EXPECT_TRUE(ParseWorld(line).ok());
  EXPECT_FALSE(ParseWorld("").ok());
  EXPECT_FALSE(ParseWorld(line + " more=1").ok());
  EXPECT_FALSE(ParseWorld(line.substr(0, line.size() / 2)).ok());
  std::string wrong = line;
  wrong.replace(wrong.find("ready="), 6, "raedy=");
  const auto parsed = ParseWorld(wrong);
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.status().message().find("wanted ready="), std::string::npos);
}

TEST(ParseWorld, ReadsLinesOfBeforeRequestsThatEndedWereCounted) {
  World world = Seen(1, 2, 3, 4);
  world.ended = {7, 5};
  const std::string line = ToLine(world);
  EXPECT_EQ(*ParseWorld(line), world);
  world.ended = {};
  const auto before = ParseWorld(line.substr(0, line.find(" ended_requests=")));
  ASSERT_TRUE(before.ok()) << before.status().ToString();
  EXPECT_EQ(*before, world);
  EXPECT_FALSE(ParseWorld(line.substr(0, line.find(" ended_attained="))).ok());
}

TEST(AllowedNow, ReadsTheRulesAsAutoscalingV2Does) {
  RolePolicy role;
  role.up = {
      0, SelectRule::kMax, {{RateRule::Unit::kPercent, 100, 15}, {RateRule::Unit::kPods, 4, 15}}};
  role.down = {
      0, SelectRule::kMin, {{RateRule::Unit::kPods, 2, 60}, {RateRule::Unit::kPercent, 50, 60}}};
  EXPECT_EQ(AllowedNow(role, 2, {}, 100).high, 6) << "4 pods are more than 100 %";
  EXPECT_EQ(AllowedNow(role, 10, {}, 100).high, 20);
  EXPECT_EQ(AllowedNow(role, 10, {{90, 6}}, 100).high, 10) << "from 4 at most 8: nothing is left";
  EXPECT_EQ(AllowedNow(role, 10, {{80, 6}}, 100).high, 20) << "the period is over";
  EXPECT_EQ(AllowedNow(role, 10, {}, 100).low, 8) << "the narrower of 2 and 5";
  EXPECT_EQ(AllowedNow(role, 9, {{70, -1}}, 100).low, 8) << "one of two is used";
  role.instances_per_pod = 4;
  EXPECT_EQ(AllowedNow(role, 8, {}, 100).high, 24) << "2 pods, 4 more";
  role.up.select = SelectRule::kDisabled;
  EXPECT_EQ(AllowedNow(role, 8, {}, 100).high, 8);
  role.up.select = SelectRule::kMax;
  role.up.rules.clear();
  EXPECT_GT(AllowedNow(role, 8, {}, 100).high, 1000);
}

}  // namespace
}  // namespace janus::controllers
