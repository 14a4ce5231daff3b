#include "controllers/scaling/whole_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "controllers/scaling/cheapest.h"
#include "tests/support/random.h"
#include "tests/unit/controllers/plan/settings.h"

namespace janus::controllers {
namespace {

TEST(WholeTable, IsWithinAPercentOfTheModel) {
  std::mt19937 random(TestSeed());
  std::uniform_real_distribution<double> draw(0, 1);
  for (const char* model : {"deepseek-v3", "dbrx"}) {
    const Setting setting = On(model, "H200");
    for (const WholeConfiguration& how :
         {WholeConfiguration{8}, WholeConfiguration{32}, WholeConfiguration{16, 2, 1, 8, false},
          WholeConfiguration{16, 1, 2, 1, false}, WholeConfiguration{16, 1, 1, 2, true}}) {
      const WholeTable table(setting, how);
      for (int i = 0; i < 400; ++i) {
        const StepLoad load = {std::exp2(14 * draw(random)), std::exp2(4 + 12 * draw(random)),
                               i % 2 == 0 ? 0 : std::exp2(13 * draw(random)), 500};
        const double truth = WholeStepSeconds(setting, how, load);
        EXPECT_NEAR(table.Step(load, {}).step, truth, 0.01 * truth)
            << model << ", " << NameOf(how) << ", " << load.decode_rows << " x " << load.context;
      }
    }
  }
}

// Decisions about copies use the same questions as those about attention and experts.
TEST(WholePredictor, CopiesAreCountedAsPools) {
  const Predictor copies = *Predictor::CreateWhole(On("deepseek-v3", "H200"), {16});
  ScalingPolicy policy;
  policy.tpot.seconds = 0.1;
  policy.attention.max = 64;
  policy.experts.max = 64;
  const CountBounds bounds = BoundsOf(copies, policy);
  EXPECT_EQ(bounds.max_pools, 8);
  Demand demand;
  demand.requests_per_second = 200;
  demand.prompt_tokens_per_second = 200;
  demand.output_tokens_per_second = 80'000;
  demand.context = 1200;
  const Corrections none;
  const auto best = Cheapest({copies, policy, demand, 0.85, none, 1}, bounds, {16, 0, 1});
  ASSERT_TRUE(best);
  EXPECT_EQ(best->m, 16);
  EXPECT_EQ(best->n, 0);
  EXPECT_TRUE(copies.Keeps(*best, demand, policy, 0.85));
  EXPECT_FALSE(copies.Keeps({16, 0, best->pools - 1}, demand, policy, 0.85));
  EXPECT_EQ(copies.GpusOf(*best), 16 * best->pools);
  EXPECT_EQ(NameOf(copies, {16, 0, 3}), "3 x 16 GPUs");
  EXPECT_EQ(Predictor::CreateWhole(On("deepseek-v3", "H100"), {4}).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace janus::controllers
