#include <gtest/gtest.h>

#include "controllers/scaling/cheapest.h"
#include "controllers/simulate/separated_policies.h"
#include "controllers/simulate/steady.h"
#include "tests/support/random.h"
#include "tests/unit/controllers/simulate/worlds.h"

namespace janus::controllers {
namespace {

Wish Pools(int pools, int m, int n) {
  Wish wish = Separated(m, n);
  wish.how.pools = pools;
  return wish;
}

TEST(Pools, ConserveRequestsTokensAndGpuHoursWhileTheyComeAndGo) {
  Simulated world;
  for (uint64_t run = 0; run < 3; ++run) {
    SCOPED_TRACE(run);
    const auto requests = Hill(60, 1800, MixSeed(TestSeed(), run));
    Scripted policy(
        {Pools(2, 2, 8), Pools(3, 3, 8), Pools(1, 4, 10), Pools(4, 1, 8), Pools(1, 1, 8)}, 250);
    ExpectConservation(requests, world.Run(requests, policy));
  }
}

// Each pool steps as the plan predicts for its share of the load.
TEST(Pools, StepWithTheirShareOfTheLoad) {
  Simulated world;
  world.scaling.ttft.reset();
  const auto one = world.Always(Steadily(20, 900, 64, 300, 5), Pools(1, 2, 8));
  const auto three = world.Always(Steadily(60, 900, 64, 300, 5), Pools(3, 2, 8));
  EXPECT_NEAR(three.totals.tpot_p50, one.totals.tpot_p50, 0.05 * one.totals.tpot_p50);
  EXPECT_NEAR(three.totals.gpu_hours, 3 * one.totals.gpu_hours, 0.01 * three.totals.gpu_hours);
}

// Sequences move with the instances that hold them. If there is room, nothing is computed again.
TEST(Pools, AServiceThatIsSplitPreemptsNothing) {
  Simulated world;
  Scripted policy({Pools(1, 8, 16), Pools(1, 8, 16), Pools(2, 4, 8)}, 300);
  const auto run = world.Run(Steadily(40, 1200, 300, 300, 6), policy);
  EXPECT_EQ(run.totals.preempted, 0);
  EXPECT_EQ(run.totals.refused, 0);
}

// A load that becomes ten times as high, with long prompts.
std::vector<SimulatedRequest> Step(double before, double at, double until) {
  std::vector<SimulatedRequest> requests = Steadily(before, at, 4000, 150, 8);
  for (SimulatedRequest request : Steadily(10 * before, until - at, 4000, 150, 9)) {
    request.arrival += at;
    requests.push_back(request);
  }
  return requests;
}

// Records what another policy saw and wanted.
class Watched final : public SimulatedPolicy {
 public:
  explicit Watched(std::unique_ptr<SimulatedPolicy> policy) : policy_(std::move(policy)) {}
  std::string_view name() const override { return policy_->name(); }
  double interval_s() const override { return policy_->interval_s(); }
  Beginning Begin(const Demand& first) override { return policy_->Begin(first); }
  Answer Decide(const Observation& seen) override {
    looks.push_back(seen.world);
    return policy_->Decide(seen);
  }
  std::vector<World> looks;

 private:
  const std::unique_ptr<SimulatedPolicy> policy_;
};

TEST(Growth, AStepOfTenTimesTheLoadIsMetWithinTwoStarts) {
  constexpr double kStep_s = 1200;
  constexpr double kStart_s = 120;
  for (const int max_pools : {1, 4}) {
    Simulated world;
    world.scaling.max_pools = max_pools;
    world.scaling.interval_seconds = 60;
    world.scaling.attention.max = world.scaling.experts.max = 96;
    world.machinery.start_s = kStart_s;
    const auto requests = Step(3, kStep_s, 2400);
    world.setting.context = DemandOf(requests, 2400).context;
    const auto predictor = Predictor::Create(world.setting, WithAllModes({96, 96}));
    ASSERT_TRUE(predictor.ok());
    const Demand load = DemandOf(Steadily(30, 1200, 4000, 150, 9), 1200);
    const Wish needed = CheapestSeparated(*predictor, world.scaling, load, 1).wish;
    Watched policy(MakeDecided("ours", &*predictor, world.scaling));
    world.Run(requests, policy);
    int attention = 0, experts = 0;
    for (const World& seen : policy.looks) {
      if (seen.time_seconds < kStep_s) {
        attention = seen.attention.ready;
        experts = seen.experts.ready;
        continue;
      }
      // Until the change is complete, neither role has fewer instances than before.
      if (seen.time_seconds <= kStep_s + 2 * kStart_s) {
        EXPECT_GE(seen.attention.ready, attention) << seen.time_seconds;
        EXPECT_GE(seen.experts.ready, experts) << seen.time_seconds;
        attention = seen.attention.ready;
        experts = seen.experts.ready;
      }
    }
    EXPECT_GE(attention + experts, needed.Gpus()) << needed.Name();
    EXPECT_GT(needed.Gpus(), 15);
  }
}

}  // namespace
}  // namespace janus::controllers
