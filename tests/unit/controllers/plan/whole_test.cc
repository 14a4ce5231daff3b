#include "controllers/plan/whole.h"

#include <gtest/gtest.h>

#include <cmath>

#include "controllers/plan/terms.h"
#include "controllers/plan/whole_search.h"
#include "tests/unit/controllers/plan/settings.h"

namespace janus::controllers {
namespace {

TEST(Whole, NamesItsBlocks) {
  EXPECT_EQ(NameOf(WholeConfiguration{1}), "DP1 EP1");
  EXPECT_EQ(NameOf(WholeConfiguration{8, 1, 8, 8, false}), "TP8 TP8");
  EXPECT_EQ(NameOf(WholeConfiguration{32, 1, 4, 1, false}), "TP4xDP8 EP32")
      << "DeepSeek-V3's prefill";
  EXPECT_EQ(NameOf(WholeConfiguration{32, 2, 8, 8, false}), "TP8xDP2 TP8xEP2 PP2");
  EXPECT_EQ(NameOf(WholeConfiguration{16, 1, 1, 2, true}), "DP16 EP8xTP2")
      << "experts split over two nodes";
}

TEST(Whole, OneGpuExchangesNothing) {
  const Setting setting = On("deepseek-v2", "H100");
  EXPECT_EQ(TimesOfWholeLayer(setting, {1}, {64, 1024, 0, 0}).exchange, 0);
  EXPECT_GT(TimesOfWholeLayer(setting, {2}, {64, 1024, 0, 0}).exchange, 0);
}

// In a pure tensor-parallel group each row must reach every GPU once. With experts spread, it
// leaves once per expert.
TEST(Whole, TensorParallelExpertsSumOnce) {
  const Setting setting = On("deepseek-v3", "H200");
  const StepLoad load = {4096, 1024, 0, 0};
  const double bytes = 4096 * RowBytes(setting.model);
  EXPECT_DOUBLE_EQ(TimesOfWholeLayer(setting, {8, 1, 8, 8, false}, load).exchange,
                   AllReduceSeconds(setting.attention, 8, bytes));
  EXPECT_GT(TimesOfWholeLayer(setting, {8, 1, 8, 1, false}, load).exchange,
            TimesOfWholeLayer(setting, {8, 1, 8, 8, false}, load).exchange);
}

// Every row goes to all nodes, but only once instead of once per expert. For top-8 this is less to
// send on two nodes, and more on eight.
TEST(Whole, SplittingExpertsOverNodesPaysForFewNodes) {
  const Setting setting = On("deepseek-v3", "H200");
  const auto gain = [&](int nodes) {
    const StepLoad load = {512. * 8 * nodes, 1024, 0, 0};
    return TimesOfWholeLayer(setting, {8 * nodes}, load).exchange /
           TimesOfWholeLayer(setting, {8 * nodes, 1, 1, nodes, true}, load).exchange;
  };
  EXPECT_GT(gain(2), 1);
  EXPECT_LT(gain(8), gain(2));
}

TEST(Whole, AnAllReduceAcrossNodesCostsMoreThanInside) {
  const Setting setting = On("dbrx", "A100");
  const double inside = AllReduceSeconds(setting.attention, 8, 1e6);
  const double across = AllReduceSeconds(setting.attention, 16, 1e6);
  EXPECT_EQ(AllReduceSeconds(setting.attention, 1, 1e6), 0);
  // Two hops, and an eighth of the message over each card, half of it in each direction.
  EXPECT_GT(across - inside, 1e6 / 8 / setting.attention.dispatch.network_bytes_per_second);
}

// With as many groups in flight as stages, a token takes as long as one group through all layers: p
// stages of g GPUs with p times the sequences take as long as one stage of g with all layers.
TEST(Whole, APipelineTakesTheStepOfItsGroupAndTheHopsBetween) {
  const Setting setting = On("mixtral-8x22b", "A100");  // 56 layers: stages are even
  const double one = WholeTimePerOutputToken(setting, {8}, 256);
  const double two = WholeTimePerOutputToken(setting, {16, 2}, 512);
  EXPECT_GT(two, one);
  EXPECT_LT(two, one + 1e-3);
  const Setting uneven = On("deepseek-v3", "H200");  // 61 layers on 8 stages: 8 per stage
  EXPECT_GT(WholeTimePerOutputToken(uneven, {64, 8}, 512),
            WholeTimePerOutputToken(uneven, {8}, 64) * 64 / 61);
}

TEST(Whole, MemoryIsEquationEightOfTheWhole) {
  Setting setting = On("mixtral-8x22b", "A100", 1000);
  const ModelShape& model = setting.model;
  const double ends = 2 * 2 * model.vocab * model.hidden;
  const double attention = model.AttentionBytes() - ends;
  const double experts = model.ExpertBytes() * 8 * 56;
  // TP 2 of attention, 2 x EP 4 of experts, all layers.
  EXPECT_NEAR(WholeBytes(setting, {8, 1, 2, 2, false}, 0), (attention + ends) / 2 + experts / 8,
              1e6);
  // Two stages: half of the layers, and one of the ends.
  EXPECT_NEAR(WholeBytes(setting, {8, 2, 2, 2, false}, 0),
              (attention / 2 + ends / 2) / 2 + experts / 2 / 4, 1e6);
  // Keys of half of the sequences (DP 4 x 1 stage), and half of the heads.
  const double keys =
      WholeBytes(setting, {8, 1, 2, 2, false}, 64) - WholeBytes(setting, {8, 1, 2, 2, false}, 0);
  EXPECT_NEAR(keys, 16 * 1000 * model.KvBytesPerToken(2), 2e7);
  const double room = WholeRoom(setting, {8, 1, 2, 2, false});
  EXPECT_LE(WholeBytes(setting, {8, 1, 2, 2, false}, room), 0.9 * 80e9);
  EXPECT_GT(WholeBytes(setting, {8, 1, 2, 2, false}, room + 1), 0.9 * 80e9);
  EXPECT_EQ(WholeRoom(setting, {2}), 0) << "141B parameters on two";
}

TEST(Whole, LoadNeverMakesAStepFaster) {
  const Setting setting = On("deepseek-v3", "H200");
  for (const WholeConfiguration& how :
       {WholeConfiguration{16}, {16, 1, 8, 8, false}, {16, 2, 2, 4, false}, {16, 1, 1, 2, true}}) {
    double before = 0;
    for (double batch = 1; batch <= 8192; batch *= 2) {
      const double tpot = WholeTimePerOutputToken(setting, how, batch);
      EXPECT_GE(tpot, before * 0.999) << NameOf(how) << ", batch " << batch;
      before = tpot;
    }
  }
}

// Exhaustively over one kind: no configuration is better than the reported one.
TEST(SearchWholes, TheBestOfEveryKindIsFound) {
  const Setting setting = On("dbrx", "A100", 651);
  for (const double batch : {0., 3000.}) {
    const PlanGoal goal = {0.15, batch};
    const auto plans = SearchWholes(setting, goal, {}, 64);
    ASSERT_FALSE(plans.empty());
    int tried = 0;
    for (const int stage : {1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32, 48, 64}) {
      for (const int stages : {1, 2, 4, 8, 16}) {
        for (const int tp_a : {1, 2, 4, 8}) {
          for (const int tp_e : {1, 2, 4, 8}) {
            if (stage * stages > 64 || stage % tp_a != 0 || stage % tp_e != 0) continue;
            const auto plan =
                EvaluateWhole(setting, goal, {}, {stage * stages, stages, tp_a, tp_e, false});
            if (!plan || plan->gpus > 64) continue;
            ++tried;
            EXPECT_FALSE(IsBetter(goal, *plan, plans[0])) << NameOf(plan->how);
          }
        }
      }
    }
    EXPECT_GT(tried, 20);
    for (size_t i = 1; i < plans.size(); ++i) {
      EXPECT_FALSE(IsBetter(goal, plans[i], plans[i - 1]));
      EXPECT_FALSE(plans[i].lost_by.empty());
    }
  }
}

TEST(SearchWholes, ABatchThatOneCopyCannotHoldTakesMore) {
  const Setting setting = On("dbrx", "A100", 8192);
  const auto plan = EvaluateWhole(setting, {0.15, 2000}, {}, {8});
  ASSERT_TRUE(plan);
  EXPECT_GT(plan->copies, 1);
  EXPECT_EQ(plan->gpus, 8 * plan->copies);
  const double room = WholeRoom(setting, {8});
  EXPECT_LE(2000. / plan->copies, room);
  EXPECT_LE(plan->tpot_seconds, 0.15);
}

}  // namespace
}  // namespace janus::controllers
