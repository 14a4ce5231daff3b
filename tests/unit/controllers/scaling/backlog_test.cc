// How many instances a queue asks for. A step takes 20 ms, and 0.1 ms per sequence of an attention
// instance: 1A1E keeps 100 ms up to 8000 tokens/s.

#include <gtest/gtest.h>

#include <cmath>

#include "controllers/scaling/decide.h"
#include "controllers/scaling/demand.h"
#include "tests/unit/controllers/scaling/worlds.h"

namespace janus::controllers {
namespace {

ScalingPolicy Policy() {
  ScalingPolicy policy;
  policy.tpot = {0.1, 0.5};
  policy.is_learning = false;
  policy.max_batch_per_attention = 4000;
  return policy;
}

// 1A1E in steps as long as its sequences make them. Prompts are computed elsewhere.
World Queued(double time, double output_tokens, double tokens_per_second, double running,
             double waiting) {
  World world = Seen(time, 1, 1, tokens_per_second / output_tokens);
  world.arrivals[0].prompt_tokens_per_second = 0;
  world.lengths.output_tokens = output_tokens;
  world.now.running = running;
  world.now.waiting = waiting;
  world.step = StepSample{time, {}, {0, 0, 0, 0.02 + 1e-4 * running}, 100, true};
  return world;
}

double StepOf(const World& world) {
  return world.step->seconds.step;
}

// Requests of 9 s. 700 sequences end at 77.8 a second and 50 arrive, so 4,000 that wait are 914
// when new instances are ready.
TEST(Backlog, WhatIsWorkedOffBeforeNewInstancesAreReadyAsksForNone) {
  const World world = Queued(60, 100, 5000, 700, 4000);
  const Decision decision = Decide(Hand(), Policy(), world, {}).decision;
  EXPECT_EQ(decision.verb, Verb::kHold) << decision.text;
  EXPECT_GT(decision.demand.output_tokens_per_second, 5500) << "some are left";
  EXPECT_LT(decision.demand.output_tokens_per_second, 6000);
  const Decision longer = Decide(Hand(), Policy(), Queued(60, 100, 5000, 700, 9000), {}).decision;
  EXPECT_EQ(longer.verb, Verb::kScale) << longer.text;
}

// Steps that take longer than the target end fewer sequences, by as much.
TEST(Backlog, SequencesEndByTheStepThatIsMeasured) {
  World world = Queued(60, 100, 5000, 700, 4000);
  EXPECT_NEAR(EndingPerSecond(world, 100), 700 / (100 * 0.09), 1e-9);
  world.step->seconds.step = 0.3;  // three times the target
  EXPECT_NEAR(EndingPerSecond(world, 100), 700 / (100 * 0.3), 1e-9);
  const Decision decision = Decide(Hand(), Policy(), world, {}).decision;
  EXPECT_EQ(decision.verb, Verb::kScale) << "fewer end than arrive: " << decision.text;
}

// The requests run for 320 s. With room for all of them, no more run than wait now.
TEST(Backlog, RequestsThatWaitAreNoMoreSequencesThanRequests) {
  const World world = Queued(60, 4000, 7600, 600, 200);
  const double life = LifeSeconds(world, Policy(), 4000);
  ASSERT_NEAR(life, 320, 1e-6);
  const UntilReady until = {120, 1, 600 / life};
  const double without = WhenReady(world, Policy(), 4000, until).output_tokens_per_second;
  const double with = Decide(Hand(), Policy(), world, {}).decision.demand.output_tokens_per_second;
  EXPECT_GT((with - without) * StepOf(world), 150);
  EXPECT_LE((with - without) * StepOf(world), 200);
}

// Arrivals are twice what is carried. The demand has them all; half of them being served does not
// double it once more.
TEST(Backlog, AnOverloadThatTheModelSeesIsNoErrorOfTheModel) {
  Memory memory = Decide(Hand(), Policy(), Queued(540, 100, 16000, 800, 0), {}).memory;
  memory.pending.clear();
  World world = Queued(600, 100, 16000, 800, 4800);
  world.ended = {4800, 4800};
  Outcome out = Decide(Hand(), Policy(), world, memory);
  EXPECT_EQ(out.memory.behind, 1) << out.decision.text;
  // The model says that these are carried.
  memory = Decide(Hand(), Policy(), Queued(540, 100, 7000, 700, 0), {}).memory;
  world = Queued(600, 100, 7000, 700, 4800);
  world.ended = {3500, 3500};
  out = Decide(Hand(), Policy(), world, memory);
  EXPECT_NEAR(out.memory.behind, 4200 / 3500.0, 1e-9) << out.decision.text;
}

// Of the arrivals of two lives, all but a share (1 - e^-2) / 2 have ended again.
TEST(Backlog, RequestsThatArriveMeanwhileAndWouldEndWaitToo) {
  const World world = Queued(60, 100, 16000, 800, 500);
  const double backlog = BacklogOf(world, Policy());
  const UntilReady until = {20, 1, 80};
  const Demand alone = WhenReady(world, Policy(), 100, until);
  const Demand with = WithBacklog(alone, world, Policy(), 100, until);
  const double more = 0.5 * (160 - 80) * 20 * (1 - (1 - std::exp(-2)) / 2);
  EXPECT_NEAR(with.requests_per_second - alone.requests_per_second, (backlog + more) / 120, 1e-9);
  EXPECT_NEAR(with.output_tokens_per_second - alone.output_tokens_per_second,
              (backlog + more) / 120 * 100, 1e-6);
}

// A forecast of twice the arrivals says nothing of the sequences that run already.
TEST(Backlog, AForecastIsOfArrivals) {
  const World world = Queued(60, 4000, 7600, 600, 0);
  const auto tokens = [&](double start, double growth) {
    return WhenReady(world, Policy(), 4000, {start, growth}).output_tokens_per_second;
  };
  const double lives = 120.0 / 320;
  EXPECT_NEAR(tokens(120, 2) - tokens(120, 1), 7600 * (1 - (1 - std::exp(-lives)) / lives), 1e-6);
  EXPECT_NEAR(tokens(32000, 2), 2 * 7600, 0.02 * 7600) << "when all of the others have ended";
  EXPECT_NEAR(tokens(0, 2), tokens(0, 1), 1e-6);
}

}  // namespace
}  // namespace janus::controllers
