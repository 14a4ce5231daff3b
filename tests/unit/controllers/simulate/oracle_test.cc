#include "controllers/simulate/oracle.h"

#include <gtest/gtest.h>

#include "tests/unit/controllers/simulate/worlds.h"

namespace janus::controllers {
namespace {

std::vector<Wish> SmallPlans(const Simulated& world,
                             const std::vector<SimulatedRequest>& requests) {
  const auto predictor = Predictor::Create(world.setting, {32, 64});
  EXPECT_TRUE(predictor.ok());
  return PlansForLevels(*predictor, world.scaling, requests, 150, 6);
}

TEST(Oracle, CostsNoMoreThanAnyScheduleOfItsPlansThatAttainsAsMuch) {
  Simulated world;
  for (const uint64_t seed : {7u, 8u, 9u}) {
    const auto requests = Hill(100, 1500, seed);
    const std::vector<Wish> plans = SmallPlans(world, requests);
    ASSERT_GT(plans.size(), 2u);
    OracleOptions options;
    options.interval_s = 150;
    for (const double attainment : {0.9, 0.99}) {
      options.attainment = attainment;
      const auto oracle =
          SimulateOracle(requests, &world.book, plans, OptionsOf(world.scaling), options, {});
      ASSERT_TRUE(oracle.ok()) << oracle.status().ToString();
      EXPECT_GE(oracle->totals.Attainment(), attainment);
      ExpectConservation(requests, *oracle);
      // Every plan all the time, and random schedules.
      std::mt19937_64 random(seed);
      for (size_t other = 0; other < 15; ++other) {
        std::vector<Wish> wishes;
        for (int i = 0; i < 10; ++i) {
          wishes.push_back(other < plans.size() ? plans[other] : plans[random() % plans.size()]);
        }
        Scripted policy(wishes, 150);
        const SimulationRun run = world.Run(requests, policy);
        if (run.totals.Attainment() < oracle->totals.Attainment()) continue;
        EXPECT_LE(oracle->totals.gpu_hours, run.totals.gpu_hours * 1.0001)
            << "seed " << seed << " schedule " << other;
      }
    }
  }
}

// Answers that last longer than an interval: a plan meets what the one before it left, and a queue
// once made would stay where capacity just follows the load.
TEST(Oracle, FollowsALoadOfLongAnswers) {
  Simulated world;
  std::vector<SimulatedRequest> requests = Wave(4, 20, 5400, 5);
  for (SimulatedRequest& request : requests) request.output *= 12;
  const auto predictor = Predictor::Create(world.setting, {32, 64});
  ASSERT_TRUE(predictor.ok());
  const std::vector<Wish> plans = PlansForLevels(*predictor, world.scaling, requests, 300, 16);
  OracleOptions options;
  options.interval_s = 120;
  options.attainment = 0.985;
  const auto oracle =
      SimulateOracle(requests, &world.book, plans, OptionsOf(world.scaling), options, {});
  ASSERT_TRUE(oracle.ok()) << oracle.status().ToString();
  EXPECT_GE(oracle->totals.Attainment(), options.attainment);
  for (const Wish& plan : plans) {
    const SimulationRun always = world.Always(requests, plan);
    if (always.totals.Attainment() < options.attainment) continue;
    // The load's mean is 60 % of its most.
    EXPECT_LT(oracle->totals.gpu_hours, 0.8 * always.totals.gpu_hours) << plan.Name();
    break;
  }
}

TEST(Oracle, NamesTheBestPlanWhereNoneIsEnough) {
  Simulated world;
  OracleOptions options;
  options.attainment = 0.999;
  const auto oracle = SimulateOracle(Hill(1000, 120, 1), &world.book, {Separated(1, 8)},
                                     OptionsOf(world.scaling), options, {});
  EXPECT_EQ(oracle.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(oracle.status().message().find("1A8E all the time"), std::string::npos);
}

TEST(Oracle, PlansAscendAndDiffer) {
  Simulated world;
  const std::vector<Wish> plans = SmallPlans(world, Hill(100, 3600, 13));
  ASSERT_GT(plans.size(), 2u);
  for (size_t i = 1; i < plans.size(); ++i) {
    EXPECT_LE(plans[i - 1].Gpus(), plans[i].Gpus());
    EXPECT_FALSE(plans[i - 1] == plans[i]);
  }
}

}  // namespace
}  // namespace janus::controllers
