#include "controllers/simulate/observer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "controllers/scaling/demand.h"
#include "tests/unit/controllers/simulate/worlds.h"

namespace janus::controllers {
namespace {

// Far more than the service can compute: prompts being computed and preempted sequences hold most
// of the keys, and few sequences decode.
std::vector<SimulatedRequest> TooMany() {
  std::vector<SimulatedRequest> requests;
  for (int i = 0; i < 6000; ++i) requests.push_back({0.02 * i, 2000, 100, 10});
  return requests;
}

TEST(Observer, TheContextOfRunningSequencesIsTheirsAlone) {
  Simulated world;
  for (const Wish& wish : {WholeInstances(1, 16), Separated(2, 8)}) {
    Scripted policy({wish}, 15);
    world.Run(TooMany(), policy);
    double most = 0;
    for (const Observation& seen : policy.looks) {
      EXPECT_LE(seen.demand.context, 2100) << seen.world.time_seconds;
      EXPECT_LE(ArrivingDemand(seen.world, 100).context, 2100) << seen.world.time_seconds;
      most = std::max(most, seen.world.now.kv_tokens_used - *seen.world.now.kv_tokens_running);
    }
    EXPECT_GT(most, 100'000) << "others hold keys too";
  }
}

// A policy gets the rate of arrivals, and separately the requests that wait.
TEST(Observer, ABacklogIsNoArrival) {
  Simulated world;
  Scripted policy({WholeInstances(1, 16)}, 15);
  world.Run(TooMany(), policy);
  const Observation& seen = policy.looks.back();
  EXPECT_NEAR(seen.demand.requests_per_second, 500, 25);
  EXPECT_GT(seen.world.now.waiting, 5000);
  const UntilReady until = {120, 1, 500};
  const Demand when_ready = WhenReady(seen.world, world.scaling, 100, until);
  EXPECT_GT(WithBacklog(when_ready, seen.world, world.scaling, 100, until).requests_per_second,
            when_ready.requests_per_second + 20);
}

// The same windows as of a service.
TEST(Observer, ArrivalsAreAveragedOverAMinuteOrSinceTheyJumped) {
  for (const double interval : {15., 120.}) {
    Simulated world;
    world.scaling.interval_seconds = interval;
    Scripted policy({Separated(2, 8)}, interval);
    std::vector<SimulatedRequest> requests = Steadily(10, 600, 300, 100, 1);
    for (SimulatedRequest more : Steadily(20, 60, 300, 100, 2)) {
      more.arrival += 420;
      requests.push_back(more);
    }
    std::ranges::sort(requests, {}, &SimulatedRequest::arrival);
    world.Run(requests, policy);
    const auto seen_at = [&](double time) {
      const auto seen = std::ranges::find(
          policy.looks, time, [](const Observation& look) { return look.world.time_seconds; });
      EXPECT_NE(seen, policy.looks.end());
      return seen == policy.looks.end() ? ArrivalWindow() : seen->world.arrivals.front();
    };
    EXPECT_EQ(seen_at(480).window_seconds, std::max(interval, 60.));
    EXPECT_NEAR(seen_at(480).requests_per_second, interval < 60 ? 30 : 20, 5);
    if (interval > 15) continue;
    EXPECT_EQ(seen_at(435).window_seconds, 15) << "they have jumped";
    EXPECT_NEAR(seen_at(435).requests_per_second, 30, 8);
    EXPECT_EQ(seen_at(420).window_seconds, 60);
  }
}

TEST(Observer, CountsInstancesOfAllPools) {
  Simulated world;
  Wish wish = Separated(2, 8);
  wish.how.pools = 3;
  Scripted policy({wish}, 15);
  world.Run(Steadily(30, 120, 300, 100, 1), policy);
  const World& seen = policy.looks.back().world;
  EXPECT_EQ(seen.attention.ready, 6);
  EXPECT_EQ(seen.experts.ready, 24);
  EXPECT_EQ(seen.current.pools, 3);
  ASSERT_TRUE(seen.step);
  // The step is for one pool, the occupancy for all pools.
  EXPECT_NEAR(seen.step->load.decode_rows * 3, seen.now.running, 0.5 * seen.now.running);
}

TEST(Observer, CopiesAreToldAsPools) {
  Simulated world;
  Scripted policy({WholeInstances(2, 16), WholeInstances(3, 16)}, 15);
  world.Run(Steadily(30, 300, 300, 100, 1), policy);
  const World& begin = policy.looks.front().world;
  EXPECT_EQ(begin.current.m, 16);
  EXPECT_EQ(begin.current.pools, 2);
  EXPECT_EQ(begin.attention.ready, 32);
  EXPECT_EQ(begin.experts.ready, 0);
  ASSERT_TRUE(policy.looks[1].world.in_flight);
  EXPECT_EQ(policy.looks[1].world.in_flight->pools, 3);
  EXPECT_EQ(policy.looks.back().world.current.pools, 3);
  EXPECT_FALSE(policy.looks.back().world.in_flight);
}

}  // namespace
}  // namespace janus::controllers
