#include "controllers/scaling/burst.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "controllers/scaling/cheapest.h"
#include "controllers/scaling/demand.h"
#include "tests/support/random.h"
#include "tests/unit/controllers/plan/settings.h"

namespace janus::controllers {
namespace {

TEST(BurstHistory, TellsWhatAShareOfTheLoadStayedBelow) {
  std::mt19937 random(MixSeed(TestSeed(), 21));
  std::lognormal_distribution<double> loads(0, 0.4);
  BurstHistory history;
  std::vector<double> seen;
  double all = 0;
  for (int i = 0; i < 5000; ++i) {
    seen.push_back(std::min(loads(random), 3.9));
    all += seen.back();
    history = Seen(std::move(history), seen.back(), 0);
  }
  std::ranges::sort(seen);
  for (const double share : {0.6, 0.9, 0.95, 0.99}) {
    double below = 0;
    size_t i = 0;
    while (below + seen[i] < share * all) below += seen[i++];
    const double burst = BurstAt(history, share, 4);
    EXPECT_GE(burst, seen[i] * (1 - 1e-9)) << share;
    EXPECT_LE(burst, seen[i] * 1.021) << share;
    EXPECT_LE(burst, BurstAt(history, share + 0.005, 4));
  }
  EXPECT_EQ(BurstAt(history, 0.99, 1.2), 1.2) << "no more than is allowed";
  EXPECT_LT(history.weights.size(), 100u);
}

TEST(BurstHistory, SaysNothingBeforeOneLoadBeyondTheShareIsToBeExpected) {
  BurstHistory history;
  EXPECT_EQ(BurstAt(history, 0.95, 4), 1);
  for (int i = 0; i < 9; ++i) history = Seen(std::move(history), 2, 0);
  EXPECT_EQ(BurstAt(history, 0.95, 4), 1);
  for (int i = 0; i < 2; ++i) history = Seen(std::move(history), 2, 0);
  EXPECT_NEAR(BurstAt(history, 0.95, 4), 2, 0.04);
}

TEST(BurstHistory, ForgetsAndIsBounded) {
  BurstHistory history;
  for (int i = 0; i < 100; ++i) history = Seen(std::move(history), 3, 60);
  EXPECT_NEAR(BurstAt(history, 0.95, 4), 3, 0.06);
  for (int i = 0; i < 2 * 24 * 60; ++i) history = Seen(std::move(history), 0.9, 60);
  EXPECT_EQ(BurstAt(history, 0.95, 4), 1) << "two calm days";
  history = Seen({}, 1e9, 0);
  EXPECT_LE(BurstAt(history, 0.5, 1e9), 4.1);
}

const Predictor& DeepSeekV3() {
  static const Predictor predictor = [] {
    PredictorOptions options;
    options.max_attention = options.max_experts = 64;
    options.modes = {ExchangeMode::kDirect, ExchangeMode::kTwoPhaseSingle,
                     ExchangeMode::kTwoPhaseParallel};
    options.gates = {GateSide::kExperts, GateSide::kAttention};
    return *Predictor::Create(On("deepseek-v3", "H200"), options);
  }();
  return predictor;
}

ScalingPolicy Policy() {
  ScalingPolicy policy;
  policy.tpot.seconds = 0.1;
  policy.attention.max = policy.experts.max = 64;
  return policy;
}

World Seen(double time, Counts at, double requests_per_second) {
  World world;
  world.time_seconds = time;
  world.arrivals = {{60, requests_per_second, 800 * requests_per_second}};
  world.lengths.output_tokens = 400;
  world.current.m = world.attention.ready = at.m;
  world.current.n = world.experts.ready = at.n;
  return world;
}

// A service of 400 tokens per request whose prompts are computed elsewhere.
World Decoding(double time, double requests_per_second, double step_seconds) {
  World world = Seen(time, {8, 16}, requests_per_second);
  world.lengths.prompt_cached_share = 1;
  world.step = StepSample{time, {}, {0, 0, 0, step_seconds}, 100, true};
  return world;
}

// The demand of this rate of requests when their sequences hold 1,000 keys.
Demand AtRate(double requests_per_second) {
  Demand demand;
  demand.requests_per_second = requests_per_second;
  demand.output_tokens_per_second = requests_per_second * 400;
  demand.prompt_tokens_per_second = requests_per_second * 800;
  demand.context = 1000;
  return demand;
}

// Decisions every minute. What is asked for is ready at the next one.
struct Service {
  Counts at = {8, 16};
  double attained = -1;  // of requests that end; < 0: not counted
  Memory memory;
  Decision last;
  int actions = 0;

  template <class Rate>
  void Live(int minutes, const ScalingPolicy& policy, const Rate& rate) {
    const double begin = std::max(memory.last_time_seconds, 0.0);
    actions = 0;
    for (int i = 1; i <= minutes; ++i) {
      World world = Seen(begin + 60 * i, at, rate(i));
      if (attained >= 0) world.ended = {60 * rate(i), 60 * rate(i) * attained};
      Outcome out = Decide(DeepSeekV3(), policy, world, std::move(memory));
      memory = std::move(out.memory);
      last = std::move(out.decision);
      if (last.verb == Verb::kHold) continue;
      at = {last.target.how.m, last.target.how.n};
      ++actions;
    }
  }
  int Gpus() const { return at.m + at.n; }
};

double Calm(int /*minute*/) {
  return 20;
}
// The load doubles in one of ten minutes.
double Bursting(int minute) {
  return minute % 10 == 0 ? 40 : 20;
}

TEST(HeadRoom, IsKeptWhereTheLoadBurstsAndOnlyThere) {
  const ScalingPolicy policy = Policy();
  Service calm;
  calm.Live(240, policy, Calm);
  EXPECT_EQ(calm.last.demand.burst, 1);
  Service bursting;
  bursting.Live(240, policy, Bursting);
  // Over a level of 22 requests a second.
  EXPECT_NEAR(BurstAt(bursting.memory.bursts, 0.95, 4), 40 / 22.0, 0.1);
  EXPECT_GT(bursting.Gpus(), calm.Gpus());
  // Bursts find room: nothing changes any more.
  bursting.Live(120, policy, Bursting);
  EXPECT_EQ(bursting.actions, 0) << bursting.last.text;
  EXPECT_NE(bursting.last.text.find("room for 1.8"), std::string::npos) << bursting.last.text;
  const Demand burst = AtRate(40);
  EXPECT_TRUE(DeepSeekV3().Keeps(bursting.at.m, bursting.at.n, burst, policy, 1));
  EXPECT_FALSE(DeepSeekV3().Keeps(calm.at.m, calm.at.n, burst, policy, 1));
  // The room is given up after the bursts have ended.
  bursting.Live(2 * 24 * 60, policy, Calm);
  EXPECT_EQ(bursting.Gpus(), calm.Gpus()) << bursting.last.text;
}

// Over the level before it, the load of a rise looks like one burst after the other: a service kept
// twice the instances that it needed for hours.
TEST(HeadRoom, IsNotForALoadThatRisesAndStays) {
  Service service;
  service.Live(120, Policy(), Calm);
  service.Live(30, Policy(), [](int minute) { return 20 + std::min(minute, 6) * 20.0; });
  EXPECT_LE(BurstAt(service.memory.bursts, 0.95, 4), 1.15);
  EXPECT_LE(BurstAt(service.memory.key_bursts, 0.95, 4), 1.15);
  const int after = service.Gpus();
  Service stays;
  stays.Live(150, Policy(), [](int) { return 140.0; });
  EXPECT_LE(after, 1.1 * stays.Gpus()) << service.last.text;
}

// Decisions react to the intervals that exceed their minute, and to no others. By these alone, a
// steady load would have bursts.
TEST(HeadRoom, IsLearnedFromMinutes) {
  Memory memory;
  memory.first_time_seconds = 0;
  memory.output_tokens = 400;
  for (int i = 0; i < 2000; ++i) {
    World world = Seen(15 * i, {8, 24}, 20);
    world.arrivals.push_back(world.arrivals[0]);
    if (i % 8 == 0) world.arrivals[0] = {15, 40, 32000};
    RememberLoad(world, ArrivingDemand(world, 400), Policy(), 120, 300, memory);
  }
  EXPECT_EQ(BurstAt(memory.bursts, 0.95, 4), 1);
  EXPECT_EQ(memory.samples.back().level, 20 * 400);
}

TEST(HeadRoom, IsNotKeptWhereThePolicyForbidsIt) {
  ScalingPolicy policy = Policy();
  policy.most_burst = 1;
  Service service;
  service.Live(240, policy, Bursting);
  EXPECT_EQ(service.last.demand.burst, 1);
  policy.most_burst = 0.5;
  EXPECT_FALSE(Validate(policy).ok());
}

TEST(HeadRoom, IsNotOnTopOfAPeakThatIsThereAlready) {
  Service service;
  service.Live(240, Policy(), Bursting);
  const double burst = BurstAt(service.memory.bursts, 0.95, 4);
  const double level = service.memory.samples.back().level;
  for (const double share : {0.1, 0.5, 1.0, burst, 3.0}) {
    Demand demand;
    demand.output_tokens_per_second = share * level;
    const Demand with =
        WithRoom(demand, service.memory.last_time_seconds, service.memory, {}, Policy());
    EXPECT_NEAR(with.output_tokens_per_second * with.burst, std::max(share * level, burst * level),
                1e-6 * level)
        << share;
  }
}

// Loads that double in one of ten minutes, under requests of this life.
double BurstOfLife(double seconds) {
  Memory memory;
  memory.output_tokens = 400;
  memory.first_time_seconds = 0;
  for (int i = 1; i <= 240; ++i) {
    const World world = Decoding(60.0 * i, Bursting(i), seconds / 400);
    ScalingPolicy policy = Policy();
    policy.tpot.seconds = 10;
    RememberLoad(world, ArrivingDemand(world, 400), policy, 120, 300, memory);
  }
  return BurstAt(memory.bursts, 0.95, 4);
}

TEST(HeadRoom, IsNotForBurstsThatAreShortBesideARequest) {
  EXPECT_NEAR(BurstOfLife(4), 40 / 22.0, 0.1);
  EXPECT_NEAR(BurstOfLife(400), 1.04, 0.02) << "22.6 of 22, by hand";
}

// At the aim, keys find room for their burst up to all memory.
TEST(HeadRoom, CountsTheMemoryBetweenAimAndAllOnce) {
  Service service;
  service.Live(240, Policy(), Bursting);
  const double burst = BurstAt(service.memory.key_bursts, 0.95, 4);
  ASSERT_GT(burst, 1.7);
  Demand demand;
  demand.output_tokens_per_second = 1;
  ScalingPolicy policy = Policy();
  for (const double aim : {0.95, 0.85, 0.7}) {
    policy.aim = aim;
    EXPECT_NEAR(WithRoom(demand, 0, service.memory, {}, policy).key_burst / aim, burst, 1e-9);
  }
  policy.aim = 0.5;
  EXPECT_EQ(WithRoom(demand, 0, service.memory, {}, policy).key_burst, 1) << "that is enough";
}

// A load fell to a fifth. The sequences that still run are long ones: four times the usual context.
TEST(HeadRoom, TheKeysOfAFallenLoadAreThoseThatWereThere) {
  Memory memory;
  memory.samples.resize(2);
  memory.samples[0].time_seconds = 100;
  memory.samples[0].level = 50000;
  memory.samples[0].key_level = 50000 * 900;
  memory.samples[1].time_seconds = 200;
  memory.samples[1].level = 10000;
  memory.samples[1].key_level = 10000 * 1000;
  Demand demand;
  demand.output_tokens_per_second = 2000;
  demand.context = 4000;
  const Demand with = WithRoom(demand, 200, memory, {}, Policy());
  EXPECT_NEAR(with.output_tokens_per_second, 10000, 1e-6);
  EXPECT_NEAR(with.context, 1000, 1e-6) << "2000 x 4000 keys are fewer than the level's";
  EXPECT_NEAR(WithRoom(demand, 100, memory, {}, Policy()).context, 900, 1e-6)
      << "the largest since";
  demand.context = 8000;
  EXPECT_NEAR(WithRoom(demand, 200, memory, {}, Policy()).context, 2000 * 8000 / 10000.0, 1e-6);
}

// A new service whose requests decode for 40 s. Those that end in the first six minutes are short.
World WhoseLengthsRise(int minute, double requests_per_second = 20) {
  World world = Decoding(60.0 * minute, requests_per_second, 0.1);
  world.lengths.output_tokens = std::min(60.0 * minute, 400.0);
  world.now.running = 40 * requests_per_second;
  world.now.kv_tokens_running = world.now.running * (800 + world.lengths.output_tokens / 2);
  return world;
}

TEST(HeadRoom, IsNotForTheLengthsThatANewServiceHasYetToLearn) {
  Memory memory;
  for (int minute = 1; minute <= 45; ++minute) {
    memory = Decide(DeepSeekV3(), Policy(), WhoseLengthsRise(minute), std::move(memory)).memory;
  }
  // A bin of the history is 2 % wide.
  EXPECT_LE(BurstAt(memory.bursts, 0.95, 4), 1.021);
  EXPECT_LE(BurstAt(memory.key_bursts, 0.95, 4), 1.021);
  // Later bursts are learned.
  for (int minute = 46; minute <= 285; ++minute) {
    const World world = WhoseLengthsRise(minute, Bursting(minute));
    memory = Decide(DeepSeekV3(), Policy(), world, std::move(memory)).memory;
  }
  EXPECT_GT(BurstAt(memory.bursts, 0.95, 4), 1.4);
  EXPECT_GT(BurstAt(memory.key_bursts, 0.95, 4), 1.4);
  const World world = WhoseLengthsRise(7);
  EXPECT_NEAR(LearnsLengthsFor(world, Policy(), 400), 400, 1e-9);
  EXPECT_EQ(LearnsLengthsFor(world, Policy(), 4000), LevelSeconds(Policy()));
}

TEST(Decide, ANewServiceDoesNotShrinkWhileItLearnsLengths) {
  ScalingPolicy policy = Policy();
  policy.is_learning = false;
  Memory memory;
  for (int minute = 1; minute <= 8; ++minute) {
    World world = WhoseLengthsRise(minute);
    world.current.m = world.attention.ready = 20;
    world.current.n = world.experts.ready = 30;
    Outcome out = Decide(DeepSeekV3(), policy, world, std::move(memory));
    memory = std::move(out.memory);
    const bool is_known = minute == 8;  // for 420 of 400 s
    EXPECT_EQ(out.decision.reason, is_known ? Reason::kCheaper : Reason::kStabilizing)
        << minute << ": " << out.decision.text;
    if (minute == 7) {
      EXPECT_NE(out.decision.text.find("in 360 of 400 s"), std::string::npos) << out.decision.text;
    }
  }
}

TEST(HeadRoom, KeysAreThoseOfDecodingSequencesOverAStep) {
  World world = Seen(60, {8, 16}, 20);
  world.now.running = 1000;
  world.now.kv_tokens_running = 2e6;
  world.now.kv_tokens_used = 9e6;  // the rest belongs to requests that wait
  world.step = StepSample{60, {1000, 2000, 0, 0}, {0.01, 0.02, 0.01, 0.05}, 100, true};
  const Memory memory = Decide(DeepSeekV3(), Policy(), world, {}).memory;
  EXPECT_NEAR(memory.samples.back().key_level, 2e6 / 0.05, 0.02 * 2e6 / 0.05);
}

// A queue that is worked off would look like a load that fell, and the next one like a steep rise.
TEST(Forecast, IsOfArrivalsWithoutThoseThatWait) {
  ScalingPolicy policy = Policy();
  policy.forecast.kind = ForecastKind::kEwma;
  Service service;
  service.Live(30, policy, Calm);
  for (const double waiting : {20000.0, 10000.0, 0.0}) {
    World world = Seen(service.memory.last_time_seconds + 60, service.at, 20);
    world.now.waiting = waiting;
    service.memory = Decide(DeepSeekV3(), policy, world, std::move(service.memory)).memory;
    EXPECT_NEAR(service.memory.forecast.level, 20, 1e-9) << waiting;
    EXPECT_NEAR(service.memory.forecast.trend, 0, 1e-9) << waiting;
  }
}

// Requests wait, and fewer end than arrive.
double BehindWith(double ended, double more_running) {
  Service service;
  service.at = {8, 16};
  service.Live(30, Policy(), Calm);
  service.memory.pending.clear();
  service.memory.last_change_seconds = -1;
  service.memory.samples.back().demand.least_running = 500;
  World world = Seen(service.memory.last_time_seconds + 60, service.at, 20);
  world.now.waiting = 1000;
  world.now.running = 500 + more_running;
  world.ended = {ended, ended};
  return Decide(DeepSeekV3(), Policy(), world, service.memory).memory.behind;
}

double TokensWhenReady(const World& world, double start_seconds) {
  return WhenReady(world, Policy(), 400, {start_seconds}).output_tokens_per_second;
}

// 8,000 tokens arrive per second, and 200 sequences make 4,000. A request takes 20 s.
TEST(WhenReady, SequencesFollowArrivalsOverTheLifeOfARequest) {
  World world = Decoding(60, 20, 0.05);
  world.now.running = 200;
  const double stays = std::exp(-1);
  EXPECT_NEAR(TokensWhenReady(world, 20), 4000 * stays + 8000 * (1 - stays), 1e-6);
  EXPECT_NEAR(TokensWhenReady(world, 600), 8000, 1e-6);
  world.now.running = 800;
  EXPECT_NEAR(TokensWhenReady(world, 20), 16000 * stays + 8000 * (1 - stays), 1e-6);
  const Demand then = WhenReady(world, Policy(), 400, {20});
  EXPECT_EQ(then.least_running, 800) << "those run already";
}

TEST(WhenReady, ASlowStepHidesNoDemand) {
  World world = Decoding(60, 20, 0.4);
  world.now.running = 2000;  // they make 5,000 tokens per second
  EXPECT_GT(TokensWhenReady(world, 20), 8000);
}

TEST(WhenReady, AllArrivalsCountWherePromptsAreComputedHere) {
  World world = Decoding(60, 20, 0.05);
  world.now.running = 200;
  world.lengths.prompt_cached_share = 0.5;
  EXPECT_EQ(TokensWhenReady(world, 20), 8000);
  world.lengths.prompt_cached_share = 1 - 1 / 800.0;
  EXPECT_LT(TokensWhenReady(world, 20), 8000) << "the last token of each is always computed here";
}

TEST(WhenReady, TheObservedTpotStandsForAStepThatWasNotMeasured) {
  World world = Decoding(60, 20, 0.05);
  world.now.running = 200;
  const double measured = TokensWhenReady(world, 20);
  world.step.reset();
  EXPECT_EQ(TokensWhenReady(world, 20), 8000) << "neither is known";
  world.observed.tpot_seconds = 0.05;
  EXPECT_EQ(TokensWhenReady(world, 20), measured);
}

TEST(Behind, IsWhatNeitherEndsNorRuns) {
  EXPECT_EQ(BehindWith(1200, 0), 1) << "20 a second for a minute";
  EXPECT_NEAR(BehindWith(800, 0), 1.5, 1e-9);
  EXPECT_EQ(BehindWith(800, 400), 1) << "longer outputs: the others run";
  EXPECT_NEAR(BehindWith(1200, -400), 1.5, 1e-9) << "preempted";
  EXPECT_EQ(BehindWith(400, -500), 2) << "the most";
}

TEST(HeadRoom, AnOverloadIsNoBurst) {
  Service service;
  service.Live(240, Policy(), Calm);
  for (int i = 0; i < 60; ++i) {
    World world = Seen(service.memory.last_time_seconds + 60, service.at, 20);
    world.now.waiting = 20000;
    Outcome out = Decide(DeepSeekV3(), Policy(), world, std::move(service.memory));
    EXPECT_GT(out.decision.demand.output_tokens_per_second, 2 * 20 * 400) << "to be worked off";
    service.memory = std::move(out.memory);
  }
  EXPECT_EQ(BurstAt(service.memory.bursts, 0.95, 4), 1);
}

TEST(HeadRoom, OfAnUnchangedWorldNothingMoreIsLearned) {
  Service service;
  service.Live(300, Policy(), Bursting);
  World again = Seen(service.memory.last_time_seconds, service.at, 300);
  again.ended = {1000, 0};
  const Outcome out = Decide(DeepSeekV3(), Policy(), again, service.memory);
  EXPECT_EQ(out.memory.bursts, service.memory.bursts);
  EXPECT_EQ(out.memory.samples, service.memory.samples);
  EXPECT_EQ(out.memory.budget, service.memory.budget);
  const Outcome twice = Decide(DeepSeekV3(), Policy(), again, out.memory);
  EXPECT_EQ(twice.memory, out.memory);
}

TEST(HeadRoom, MoreLoadWithTheSameBurstsNeverTurnsNoIntoYes) {
  std::mt19937 random(MixSeed(TestSeed(), 22));
  const ScalingPolicy policy = Policy();
  int kept = 0;
  for (int i = 0; i < 1000; ++i) {
    const int m = 1 + static_cast<int>(random() % 40);
    const int n = 8 + static_cast<int>(random() % 40);
    Demand demand;
    demand.requests_per_second = std::exp2(static_cast<double>(random() % 70) / 10);
    demand.output_tokens_per_second = 400 * demand.requests_per_second;
    demand.context = 1000;
    demand.burst = 1 + static_cast<double>(random() % 20) / 10;
    demand.key_burst = 1 + static_cast<double>(random() % 20) / 10;
    if (!DeepSeekV3().Keeps(m, n, demand, policy, 0.85)) continue;
    ++kept;
    Demand calmer = demand;
    calmer.burst = calmer.key_burst = 1;
    EXPECT_TRUE(DeepSeekV3().Keeps(m, n, calmer, policy, 0.85)) << m << "A" << n << "E";
    EXPECT_TRUE(DeepSeekV3().Keeps(m, n, Scaled(demand, 0.8), policy, 0.85)) << m << "A" << n;
  }
  EXPECT_GT(kept, 100);
}

TEST(HeadRoom, KeysThatRiseAreGivenMemory) {
  Demand demand;
  demand.requests_per_second = 10;
  demand.output_tokens_per_second = 4000;
  demand.context = 20000;
  const ScalingPolicy policy = Policy();
  const Prediction calm = DeepSeekV3().Steady(8, 16, demand, policy);
  demand.key_burst = 2;
  const Prediction rising = DeepSeekV3().Steady(8, 16, demand, policy);
  EXPECT_EQ(rising.tpot_seconds, calm.tpot_seconds);
  const double poisson = 1 + 1.645 / std::sqrt(calm.batch);
  EXPECT_NEAR(rising.kv_share / calm.kv_share, 2 / poisson, 1e-3);
}

TEST(Budget, WhatIsNotMissedGivesRoomBackButNotTheLevel) {
  const ScalingPolicy policy = Policy();
  Service service;
  // So many that the room is more than a GPU.
  const auto rate = [](int minute) { return 2 * Bursting(minute); };
  service.Live(240, policy, rate);
  const int before = service.Gpus();
  service.attained = 1;
  service.Live(24 * 60, policy, rate);
  EXPECT_EQ(service.memory.budget.caution, kLeastCaution);
  EXPECT_LT(service.Gpus(), before) << service.last.text;
  EXPECT_GE(service.last.demand.burst, 1);
  const Demand level = AtRate(44);
  EXPECT_TRUE(DeepSeekV3().Keeps(service.at.m, service.at.n, level, policy, 1));
  // If too many requests miss, all of the room comes back, and more.
  service.attained = 0.8;
  service.Live(24 * 60, policy, rate);
  EXPECT_EQ(service.memory.budget.caution, kMostCaution);
  EXPECT_GT(service.Gpus(), before);
  EXPECT_NE(service.last.text.find("aiming at 70 % of the targets (caution +2.00)"),
            std::string::npos)
      << service.last.text;
  service.Live(120, policy, rate);
  EXPECT_EQ(service.actions, 0) << "what a lower aim asked for is not left again";
}

TEST(Budget, AnAimThatFellIsActedOnWithoutAChangeOfLoad) {
  const ScalingPolicy policy = Policy();
  Service service;
  service.Live(240, policy, Calm);
  service.Live(60, policy, Calm);
  ASSERT_EQ(service.actions, 0) << service.last.text;
  const int before = service.Gpus();
  service.attained = 0.8;
  service.Live(24 * 60, policy, Calm);
  EXPECT_GT(service.Gpus(), before) << service.last.text;
  EXPECT_LT(service.actions, 4) << "step by step as caution grows, not to and fro";
}

TEST(Budget, WhatIsMissedGrowsRoomUpToTheMostThatIsAllowed) {
  ScalingPolicy policy = Policy();
  // Bursts that the percentile does not include.
  const auto seldom = [](int minute) { return minute % 60 == 0 ? 50.0 : 20.0; };
  Service service;
  service.Live(240, policy, seldom);
  EXPECT_EQ(service.last.demand.burst, 1);
  const int before = service.Gpus();
  service.attained = 0.5;
  service.Live(600, policy, seldom);
  EXPECT_EQ(service.memory.budget.caution, kMostCaution);
  EXPECT_GT(service.last.demand.burst, 2) << service.last.text;
  EXPECT_GT(service.Gpus(), before);
  policy.most_burst = 1.5;
  service.Live(60, policy, seldom);
  EXPECT_EQ(service.last.demand.burst, 1.5);
}

// A reserve for bursts is not an error of the model, and does not correct the percentile.
TEST(Budget, IsNotLearnedFromAsAFaultOfTheModel) {
  const ScalingPolicy policy = Policy();
  Service service;
  service.Live(259, policy, [](int minute) { return minute % 60 == 0 ? 50.0 : 20.0; });
  World world = Seen(service.memory.last_time_seconds + 60, service.at, 20);
  world.current.micro_batches = service.last.target.how.micro_batches;
  world.observed.tpot_seconds = 0.12;
  world.observed.tpot_requests = 1200;
  const Outcome without = Decide(DeepSeekV3(), policy, world, service.memory);
  service.memory.budget.caution = kMostCaution;
  const Outcome with = Decide(DeepSeekV3(), policy, world, service.memory);
  EXPECT_GT(with.decision.demand.burst, without.decision.demand.burst);
  ASSERT_FALSE(without.memory.tails.empty());
  EXPECT_GT(without.memory.tails.back(), 1);
  EXPECT_EQ(with.memory.tails, without.memory.tails);
}

TEST(Budget, WithoutEvidenceDecisionsAreWhatTheyWereWithoutOne) {
  ScalingPolicy without = Policy();
  without.is_budgeted = false;
  Service with;
  Service other;
  other.attained = 0.3;  // not used
  for (int i = 0; i < 60; ++i) {
    with.Live(5, Policy(), Bursting);
    other.Live(5, without, Bursting);
    ASSERT_EQ(with.last.text, other.last.text);
  }
  EXPECT_EQ(with.memory, other.memory);
}

TEST(Budget, WhereADecisionIsNotFollowedNothingIsLearned) {
  ScalingPolicy policy = Policy();
  policy.is_advisory = true;
  Service service;
  service.attained = 0;
  service.Live(120, policy, Calm);
  EXPECT_EQ(service.memory.budget, ErrorBudget{});
}

TEST(Budget, WhatIsMissedAtTheMostThatIsAllowedAsksForNoMore) {
  ScalingPolicy by_gpus = Policy();
  by_gpus.max_gpus = 24;
  ScalingPolicy by_count = Policy();
  by_count.attention.max = 8;
  by_count.experts.max = 16;
  for (const ScalingPolicy& policy : {by_gpus, by_count}) {
    Service service;  // 8A16E
    service.attained = 0;
    service.Live(120, policy, [](int) { return 2000.0; });
    EXPECT_EQ(service.Gpus(), 24);
    EXPECT_EQ(service.memory.budget.caution, 0);
  }
}

// Experts are short, and there are no more of them: attention would not help.
TEST(Budget, WhatIsMissedForWantOfOneRoleAsksForNoMoreOfTheOther) {
  ScalingPolicy policy = Policy();
  policy.experts.max = 16;
  Service service;
  service.attained = 0;
  service.Live(240, policy, [](int) { return 2000.0; });
  EXPECT_EQ(service.at.n, 16);
  EXPECT_LT(service.memory.budget.caution, 0.5) << "what was missed on the way there counts";
}

// No step is shorter than about 16 ms: seven tenths of 20 ms are never kept, but 20 ms are.
TEST(Budget, AnAimThatNoStepReachesIsNotAskedFor) {
  ScalingPolicy policy = Policy();
  policy.tpot.seconds = 0.02;
  policy.attention.max = policy.experts.max = 64;
  for (const double rate : {0.5, 1.0, 2.0}) {
    Service usual;
    usual.Live(60, policy, [&](int) { return rate; });
    ASSERT_EQ(usual.last.reason, Reason::kSatisfied) << usual.last.text;
    for (const double caution : {0.5, 1.0, 1.5, kMostCaution}) {
      Service careful;
      careful.memory.budget.caution = caution;
      careful.Live(60, policy, [&](int) { return rate; });
      EXPECT_NE(careful.last.reason, Reason::kImpossibleSlo)
          << caution << ": " << careful.last.text;
      EXPECT_NE(careful.last.reason, Reason::kAtMax) << caution << ": " << careful.last.text;
      EXPECT_GE(careful.Gpus(), usual.Gpus()) << caution << " at " << rate;
    }
  }
}

// With decisions every half hour, too few loads are known for the percentile, but enough for a
// smaller share.
TEST(Budget, LessCautionNeverMeansMoreRoom) {
  Service service;
  for (int i = 1; i <= 24; ++i) {
    World world = Seen(1800.0 * i, service.at, i % 2 == 0 ? 32 : 16);
    Outcome out = Decide(DeepSeekV3(), Policy(), world, std::move(service.memory));
    service.memory = std::move(out.memory);
  }
  double before = 0;
  for (double caution = kLeastCaution; caution <= kMostCaution; caution += 0.5) {
    Demand demand;
    demand.output_tokens_per_second = 16 * 400;
    const Demand with = WithRoom(demand, service.memory.last_time_seconds, service.memory,
                                 {caution, 1, 1}, Policy());
    EXPECT_GE(with.burst, before) << caution;
    before = with.burst;
  }
}

TEST(Budget, MoreLoadNeverMeansFewerGpusWhateverWasMissed) {
  for (const double caution : {kLeastCaution, -1.0, 1.0, kMostCaution}) {
    int last = 0;
    for (double rate = 5; rate < 80; rate *= 1.3) {
      Service service;
      service.memory.budget = {caution, 1000, 60};
      service.Live(60, Policy(), [&](int) { return rate; });
      EXPECT_GE(service.Gpus(), last) << caution << ", " << rate;
      last = service.Gpus();
      const int settled = service.Gpus();
      service.Live(30, Policy(), [&](int) { return rate; });
      EXPECT_EQ(service.actions, 0) << service.last.text;
      EXPECT_EQ(service.Gpus(), settled);
    }
  }
}

// All keys of a full service belong to preempted prompts that wait to be computed again.
TEST(ArrivingDemand, DoesNotTakeTheKeysOfPreemptedRequestsForLongSequences) {
  World world = Seen(60, {8, 16}, 20);
  world.now.running = 0;
  world.now.waiting = 12000;
  world.now.kv_tokens_used = 1e7;
  EXPECT_LE(ArrivingDemand(world, 400).context, 2000);
  world.now.running = 9000;
  world.now.waiting = 0;
  EXPECT_NEAR(ArrivingDemand(world, 400).context, 1e7 / 9000, 2);
}

TEST(Memory, IsBounded) {
  Service service;
  ScalingPolicy policy = Policy();
  policy.start_seconds = 3600;
  double time = 0;
  for (int i = 0; i < 3000; ++i) {
    service.memory =
        Decide(DeepSeekV3(), policy, Seen(time += 1, {8, 16}, 20), std::move(service.memory))
            .memory;
  }
  EXPECT_LE(service.memory.samples.size(), 512u);
}

}  // namespace
}  // namespace janus::controllers
