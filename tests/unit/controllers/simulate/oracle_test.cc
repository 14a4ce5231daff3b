#include "controllers/simulate/oracle.h"

#include <gtest/gtest.h>

#include "tests/support/random.h"
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
  for (uint64_t load = 0; load < 3; ++load) {
    const uint64_t seed = MixSeed(TestSeed(), load);
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
      // Each plan all the time, and random schedules.
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
            << "load " << load << " schedule " << other;
      }
    }
  }
}

// One and a half times the load that the plan carries. Only the refused requests miss. Without
// refusals, there would be a permanent queue and every later request would miss.
TEST(Oracle, AQueueThatCannotBeServedIsRefused) {
  Simulated world;
  world.scaling.max_batch_per_attention = 32;
  ShapeBook book(world.setting, world.machinery, world.scaling, 300);
  const Wish plan = Separated(1, 8);
  const double carried = 32 / (200 * book.Separate(plan.how).steps->At(32, 400, 0).seconds);
  std::vector<SimulatedRequest> requests = Steadily(1.5 * carried, 600, 300, 200, 1);
  for (SimulatedRequest& request : requests) request.cached = request.input - 1;
  OracleOptions options;
  options.attainment = 0.5;
  const auto oracle =
      SimulateOracle(requests, &book, {plan}, OptionsOf(world.scaling), options, {});
  ASSERT_TRUE(oracle.ok()) << oracle.status().ToString();
  EXPECT_LT(oracle->totals.Attainment(), 0.7);
  EXPECT_GT(oracle->totals.refused, 0);
  // Other policies may let as many requests wait as before.
  EXPECT_EQ(book.Separate(plan.how).most_waiting, world.machinery.most_waiting);
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
