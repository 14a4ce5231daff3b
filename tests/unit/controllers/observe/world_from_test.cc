#include "controllers/observe/world_from.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/support/contains.h"

namespace janus::controllers {
namespace {

// A service of two attention and one expert instance behind two gateways. Every second brings each
// gateway two requests of 10 tokens, which end within the second with 5 tokens, and each instance
// 20 steps.
class WorldFromTest : public testing::Test {
 protected:
  static GatewayCounts Gateway(const std::string& id, double time) {
    GatewayCounts counts;
    counts.gateway_id = id;
    counts.is_attached = true;
    counts.age_seconds = 10'000 + time;
    const auto requests = static_cast<uint64_t>(std::llround(2 * (10'000 + time)));
    counts.reports = requests;
    counts.arrived = requests;
    counts.prompt_tokens = 10 * requests;
    counts.prompt_squares = 150 * requests;
    counts.cached_prompt_tokens = requests;
    counts.finished = requests;
    counts.output_tokens = 5 * requests;
    counts.latencies.Put(
        {LatencyCounts::BucketOf(Seconds(0.2)), LatencyCounts::BucketOf(Seconds(0.04))}, requests);
    return counts;
  }
  static InstanceStatistics Instance(Role role, int rank, double time) {
    const auto steps = static_cast<uint64_t>(std::llround(20 * (1000 + time)));
    const auto count = static_cast<double>(steps);
    InstanceStatistics one;
    one.role = role;
    one.rank = Rank{rank};
    one.epoch = 4;
    one.steps = steps;
    LoadCounts& load = one.load.emplace();
    load.process = 10 + static_cast<uint64_t>(rank);
    if (role == Role::kExperts) {
      one.rounds = 2 * steps;
      load.expert_seconds = 0.01 * count;
      return one;
    }
    one.kv_tokens_used = 900;
    one.kv_tokens_capacity = 5000;
    load.decode_rows = 3 * steps;
    load.decode_keys = 3 * 200 * steps;
    load.prompt_rows = steps;
    load.prompt_keys = 6 * steps;
    load.attention_seconds = 0.02 * count;
    load.exchange_seconds = 0.015 * count;
    load.step_seconds = 0.04 * count;
    load.decoding = 3;
    load.decoding_kv_tokens = 600;
    load.awaiting = 2;
    load.waiting_prompt_tokens = 70;
    load.oldest_waiting_seconds = 0.5 + rank;
    return one;
  }
  static Look At(double time) {
    Look look;
    look.time_seconds = time;
    look.statistics.epoch = 4;
    look.statistics.instances = {Instance(Role::kAttention, 0, time),
                                 Instance(Role::kAttention, 1, time),
                                 Instance(Role::kExperts, 0, time)};
    look.statistics.gateways.gateways = {Gateway("a", time), Gateway("b", time)};
    look.current.m = 2;
    look.current.n = 1;
    look.attention.ready = 2;
    look.experts.ready = 1;
    return look;
  }
  Result<World> See(const Look& look) { return WorldFrom(look, options_, history_); }
  // Looks at a steady service every 15 s, up to `last`.
  void SeeUntil(double last) {
    for (double time = 0; time <= last; time += 15) (void)See(At(time));
  }
  // What is missing in a look that has this damage.
  std::string Missing(const std::function<void(Look&)>& damage,
                      StatusCode code = StatusCode::kUnavailable) {
    SeeUntil(30);
    Look look = At(45);
    damage(look);
    const Result<World> world = See(look);
    history_ = {};
    if (world.ok()) return "nothing";
    EXPECT_EQ(world.status().code(), code) << world.status().message();
    return world.status().message();
  }

  ObserveOptions options_{.tpot = {.seconds = 0.05, .percentile = 0.95},
                          .ttft = LatencyTarget{.seconds = 1, .percentile = 0.9}};
  LookHistory history_;
};

TEST_F(WorldFromTest, ASteadyServiceIsSeenAsItIs) {
  const Result<World> first = See(At(0));
  EXPECT_EQ(first.status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Contains(first.status().message(), "first look"));
  SeeUntil(600);
  Look look = At(615);
  look.in_flight = InFlight{3, 1, 600, 1};
  look.is_rolling_out = true;
  look.statistics.gateways.gateways[1].waiting = 4;
  look.statistics.gateways.gateways[1].waiting_prompt_tokens = 40;
  look.statistics.gateways.gateways[1].oldest_waiting_seconds = 9;
  const Result<World> seen = See(look);
  ASSERT_TRUE(seen.ok()) << seen.status().ToString();
  const World& world = *seen;
  EXPECT_EQ(world.time_seconds, 615);
  ASSERT_EQ(world.arrivals.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    // Nothing jumps, so the first one is the minute, too.
    EXPECT_NEAR(world.arrivals[i].window_seconds, options_.windows_seconds[i == 0 ? 1 : i], 1e-9);
    EXPECT_NEAR(world.arrivals[i].requests_per_second, 4, 1e-9);
    EXPECT_NEAR(world.arrivals[i].prompt_tokens_per_second, 40, 1e-9);
  }
  EXPECT_NEAR(world.lengths.output_tokens, 5, 1e-9);
  EXPECT_NEAR(world.lengths.prompt_squared_variation, 0.5, 1e-9);
  EXPECT_NEAR(world.lengths.prompt_cached_share, 0.1, 1e-9);
  EXPECT_EQ(world.now.running, 6);
  EXPECT_EQ(world.now.waiting, 4 + 4);
  EXPECT_EQ(world.now.waiting_prompt_tokens, 140 + 40);
  EXPECT_EQ(world.now.oldest_waiting_seconds, 9);
  EXPECT_EQ(world.now.kv_tokens_used, 1800);
  EXPECT_EQ(world.now.kv_tokens_running, 1200);
  EXPECT_EQ(world.now.kv_tokens_capacity, 10000);
  EXPECT_EQ(world.observed.tpot_requests, 60);
  EXPECT_NEAR(world.observed.tpot_seconds.value_or(0), 0.04, 0.004);
  EXPECT_EQ(world.observed.ttft_requests, 60);
  EXPECT_NEAR(world.observed.ttft_seconds.value_or(0), 0.2, 0.02);
  EXPECT_EQ(world.ended.requests, 60);
  EXPECT_EQ(world.ended.attained, 60);
  ASSERT_TRUE(world.step);
  EXPECT_EQ(world.step->time_seconds, 615);
  EXPECT_NEAR(world.step->steps, 300, 1e-9);
  EXPECT_NEAR(world.step->load.decode_rows, 6, 1e-9);
  EXPECT_NEAR(world.step->load.context, 200, 1e-9);
  EXPECT_NEAR(world.step->load.prompt_rows, 2, 1e-9);
  EXPECT_NEAR(world.step->load.prompt_keys, 6, 1e-9);
  EXPECT_NEAR(world.step->seconds.attention, 0.02, 1e-9);
  EXPECT_NEAR(world.step->seconds.experts, 0.01, 1e-9);
  EXPECT_NEAR(world.step->seconds.exchange, 0.005, 1e-9);
  EXPECT_NEAR(world.step->seconds.step, 0.04, 1e-9);
  EXPECT_EQ(world.current, look.current);
  EXPECT_EQ(world.attention, look.attention);
  EXPECT_EQ(world.in_flight, look.in_flight);
  EXPECT_TRUE(world.is_rolling_out);
}

TEST_F(WorldFromTest, TheStepIsOfOnePoolAndTheOccupancyOfAll) {
  for (const double time : {0.0, 15.0}) {
    Look look = At(time);
    look.statistics.instances.push_back(Instance(Role::kExperts, 1, time));
    look.experts.ready = 2;
    look.current.m = look.current.n = 1;
    look.current.pools = 2;
    const Result<World> world = See(look);
    if (time == 0) continue;
    ASSERT_TRUE(world.ok()) << world.status().ToString();
    ASSERT_TRUE(world->step);
    EXPECT_NEAR(world->step->load.decode_rows, 3, 1e-9);
    EXPECT_NEAR(world->step->load.prompt_rows, 1, 1e-9);
    EXPECT_NEAR(world->step->load.context, 200, 1e-9);
    EXPECT_EQ(world->now.running, 6);
  }
}

TEST_F(WorldFromTest, WhatMissedEitherTargetOrWasRefusedDidNotAttain) {
  SeeUntil(30);
  Look look = At(45);
  GatewayCounts& gateway = look.statistics.gateways.gateways[0];
  gateway.unread += 3;
  gateway.refused += 4;
  gateway.failed += 5;
  gateway.finished += 6;
  gateway.latencies.Put({LatencyCounts::BucketOf(Seconds(8)), 30}, 2);
  gateway.latencies.Put({30, LatencyCounts::BucketOf(Seconds(0.5))}, 4);
  const Result<World> world = See(look);
  ASSERT_TRUE(world.ok()) << world.status().ToString();
  EXPECT_EQ(world->ended.requests, 60 + 3 + 4 + 5 + 6);
  EXPECT_EQ(world->ended.attained, 60);
  EXPECT_NEAR(world->arrivals[0].requests_per_second, 4 + 3.0 / 45, 1e-9)
      << "what was refused unread arrived";
  EXPECT_NEAR(world->arrivals[0].prompt_tokens_per_second, 40 + 30.0 / 45, 1e-9);
}

TEST_F(WorldFromTest, ZeroTrafficIsAWorldWithoutArrivals) {
  SeeUntil(600);
  Result<World> world = Unavailable("none");
  for (double time = 615; time <= 1200; time += 15) {
    Look look = At(600);
    look.time_seconds = time;
    for (InstanceStatistics& one : look.statistics.instances) {
      if (one.role == Role::kExperts) continue;
      one.load->decoding = one.load->awaiting = 0;
      one.load->oldest_waiting_seconds = 0;
    }
    world = See(look);
    ASSERT_TRUE(world.ok()) << world.status().ToString();
  }
  for (const ArrivalWindow& window : world->arrivals) EXPECT_EQ(window.requests_per_second, 0);
  EXPECT_EQ(world->ended, Ended());
  EXPECT_FALSE(world->observed.tpot_seconds);
  EXPECT_EQ(world->lengths.output_tokens, 0) << "not known, rather than short";
  EXPECT_FALSE(world->step);
}

TEST_F(WorldFromTest, ARestartedWorkerIsNoSpike) {
  SeeUntil(60);
  Look look = At(75);
  InstanceStatistics& restarted = look.statistics.instances[1];
  restarted = Instance(Role::kAttention, 1, -995);  // 100 steps in 5 s
  restarted.load->process = 77;
  const Result<World> world = See(look);
  ASSERT_TRUE(world.ok()) << world.status().ToString();
  EXPECT_NEAR(world->arrivals[0].requests_per_second, 4, 1e-9);
  ASSERT_TRUE(world->step);
  EXPECT_NEAR(world->step->load.decode_rows, 6, 1e-9);
  EXPECT_NEAR(world->step->seconds.attention, 0.02, 1e-9);
}

TEST_F(WorldFromTest, AnotherEpochHasNoStepYet) {
  SeeUntil(60);
  Look look = At(75);
  look.statistics.epoch = 5;
  for (InstanceStatistics& one : look.statistics.instances) one.epoch = 5;
  const Result<World> world = See(look);
  ASSERT_TRUE(world.ok()) << world.status().ToString();
  EXPECT_FALSE(world->step);
  EXPECT_NEAR(world->arrivals[2].requests_per_second, 4, 1e-9);
}

TEST_F(WorldFromTest, WhatIsMissingIsNamed) {
  EXPECT_TRUE(Contains(Missing([](Look& l) { l.statistics.instances[2].load.reset(); }),
                       "experts-0: it does not count its load"));
  EXPECT_TRUE(Contains(
      Missing([](Look& l) { l.statistics.instances.erase(l.statistics.instances.begin() + 1); }),
      "attention-1 tells nothing of epoch 4"));
  EXPECT_TRUE(Contains(Missing([](Look& l) { l.statistics.instances[0].epoch = 3; }),
                       "attention-0 tells nothing of epoch 4"));
  EXPECT_TRUE(Contains(Missing([](Look& l) {
                         l.statistics.silent = {{"experts-0", "Deadline Exceeded"}};
                       }),
                       "experts-0 does not answer: Deadline Exceeded"));
  EXPECT_TRUE(
      Contains(Missing([](Look& l) { l.statistics.instances[0].holding = "a peer has gone"; }),
               "attention-0: it computes nothing: a peer has gone"));
  EXPECT_TRUE(
      Contains(Missing([](Look& l) { l.statistics.gateways = {}; }), "no gateway is attached"));
  EXPECT_TRUE(Contains(Missing([](Look& l) {
                         GatewayCounts silent;
                         silent.gateway_id = "c";
                         silent.is_attached = true;
                         l.statistics.gateways.gateways.push_back(silent);
                       }),
                       "gateway c: it has not reported"));
}

TEST_F(WorldFromTest, NumbersThatCannotBeAreNamed) {
  const StatusCode kBad = StatusCode::kInvalidArgument;
  EXPECT_TRUE(Contains(
      Missing([](Look& l) { l.statistics.instances[1].load->oldest_waiting_seconds = NAN; }, kBad),
      "attention-1: oldest_waiting_seconds is nan"));
  EXPECT_TRUE(
      Contains(Missing([](Look& l) { l.statistics.instances[1].load->step_seconds = -1; }, kBad),
               "attention-1: step_seconds is -1"));
  EXPECT_TRUE(Contains(
      Missing([](Look& l) { l.statistics.instances[0].kv_tokens_used = UINT64_MAX; }, kBad),
      "attention-0: kv_tokens_used is 18446744073709551615"));
  EXPECT_TRUE(
      Contains(Missing([](Look& l) { l.statistics.gateways.gateways[1].arrived = 1; }, kBad),
               "gateway b: arrived went from"));
  EXPECT_TRUE(Contains(Missing([](Look& l) { l.time_seconds = 30; }, kBad), "30.000 s"));
}

TEST_F(WorldFromTest, WhatEndedWhileNoWorldCouldBeGivenIsInTheNextOne) {
  SeeUntil(30);
  Look blind = At(45);
  blind.statistics.silent = {{"experts-0", "busy"}};
  EXPECT_FALSE(See(blind).ok());
  Result<World> world = See(At(60));
  ASSERT_TRUE(world.ok());
  EXPECT_EQ(world->ended.requests, 120);
  world = See(At(75));
  EXPECT_EQ(world->ended.requests, 60) << "and is told once";
}

TEST_F(WorldFromTest, WithoutATargetForFirstTokensOnlyTheOtherCounts) {
  options_.ttft.reset();
  SeeUntil(30);
  Look look = At(45);
  GatewayCounts& gateway = look.statistics.gateways.gateways[0];
  gateway.finished += 10;
  gateway.latencies.Put({LatencyCounts::BucketOf(Seconds(800)), 10}, 10);
  const Result<World> world = See(look);
  ASSERT_TRUE(world.ok());
  EXPECT_EQ(world->ended.attained, 70);
  EXPECT_FALSE(world->observed.ttft_seconds);
}

}  // namespace
}  // namespace janus::controllers
