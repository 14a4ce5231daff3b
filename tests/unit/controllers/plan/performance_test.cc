#include "controllers/plan/performance.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "controllers/plan/terms.h"
#include "tests/unit/controllers/plan/settings.h"

namespace janus::controllers {
namespace {

TEST(ModelShape, SizesAreThoseOfTheModels) {
  const ModelShape v3 = *FindModel("DeepSeek-V3");
  EXPECT_NEAR(v3.ExpertBytes() / 1e6, 44.0, 0.1);
  EXPECT_EQ(v3.KvBytesPerToken(1), 576 * 2 * 61);
  EXPECT_EQ(v3.KvBytesPerToken(8), v3.KvBytesPerToken(1)) << "a latent is replicated";
  EXPECT_NEAR((v3.AttentionBytes() + v3.ExpertBytes() * 256 * 58) / 1e9, 671, 5);
  ModelShape fp8 = v3;
  fp8.bytes_per_kv_value = v3.Fp8BytesPerKvValue();
  EXPECT_NEAR(fp8.KvBytesPerToken(1), 656 * 61, 1e-6);
  const ModelShape mixtral = *FindModel("mixtral-8x22b");
  EXPECT_NEAR(mixtral.Fp8BytesPerKvValue() * 128, 128 + 4, 1e-9);
  EXPECT_EQ(mixtral.KvBytesPerToken(1), 2 * 8 * 128 * 2 * 56);
  EXPECT_EQ(mixtral.KvBytesPerToken(8), mixtral.KvBytesPerToken(1) / 8);
  EXPECT_NEAR((mixtral.AttentionBytes() + mixtral.ExpertBytes() * 8 * 56) / 2e9, 141, 2);
  EXPECT_FALSE(FindModel("gpt").ok());
}

TEST(ActivatedExperts, UniformRoutingFollowsTheFormula) {
  const ModelShape model = *FindModel("deepseek-v3");
  EXPECT_NEAR(ActivatedExperts({}, model, 1), 8, 1e-9);
  EXPECT_NEAR(ActivatedExperts({}, model, 1e6), 256, 1e-6);
  EXPECT_EQ(ActivatedExperts({}, model, 0), 0);
}

TEST(ActivatedExperts, AMeasuredCurveIsReadBetweenItsPoints) {
  const ModelShape model = *FindModel("deepseek-v3");
  const ActivationCurve curve = {{{1, 8}, {4, 20}, {16, 60}}};
  EXPECT_NEAR(ActivatedExperts(curve, model, 2), 14, 1e-9);
  EXPECT_NEAR(ActivatedExperts(curve, model, 16), 60, 1e-9);
  EXPECT_NEAR(ActivatedExperts(curve, model, 999), 60, 1e-9);
  EXPECT_NEAR(ActivatedExperts(curve, model, 0.5), 4, 1e-9);
}

// A layer takes as long as its slowest stage, or as one micro-batch through all stages.
TEST(Performance, ALayerIsItsSlowestStageOrTheWayThroughAll) {
  const Setting setting = On("dbrx", "A100");
  for (const int b : {2, 3, 4}) {
    const LayerTimes t = TimesOfLayer(setting, Make(8, 16, b), 1024);
    const double attention = t.attention + t.shared;
    EXPECT_DOUBLE_EQ(t.layer, std::max({b * attention, b * t.experts, b * t.out, b * t.back,
                                        attention + t.experts + t.out + t.back}));
  }
}

// An instance with one micro-batch computes shared experts while it waits.
TEST(Performance, SharedExpertsTakeNoTimeBesideALongerWait) {
  const LayerTimes terms = {.attention = 3, .shared = 2, .experts = 4, .out = 1, .back = 1};
  EXPECT_DOUBLE_EQ(ComposeLayer(terms, {1, 1}), 3 + 6);
  EXPECT_DOUBLE_EQ(ComposeLayer(terms, {1.5, 2}), 3 + 7) << "half of them is in the way";
  EXPECT_DOUBLE_EQ(ComposeLayer(terms, {2, 2}), 3 + 2 + 6);
  EXPECT_DOUBLE_EQ(ComposeLayer(terms, {4, 4}), 4 * (3 + 2));
}

TEST(Performance, MegaScalesEquationIsTheCaseWhereItsConstraintsHold) {
  // T_a = T_e = 10, T_c = 3 <= T_f / 2, b = 3: 3 x 10 >= 2 x (10 + 3).
  EXPECT_DOUBLE_EQ(MegaScaleIterationSeconds(10, 10, 3, 3, 40), 26 + 10 * (3 * 40 - 1));
  const double layer = std::max({3 * 10., 3 * 3., 10 + 10 + 2 * 3.});
  EXPECT_NEAR(40 * layer / MegaScaleIterationSeconds(10, 10, 3, 3, 40), 1, 0.02);
}

TEST(Performance, MoreInstancesAreNeverSlowerInTheirOwnModule) {
  const Setting setting = On("deepseek-v3", "H200");
  for (const double batch : {8., 128., 2048.}) {
    EXPECT_LE(TimesOfLayer(setting, Make(4, 32), batch).experts,
              TimesOfLayer(setting, Make(4, 16), batch).experts);
    EXPECT_LE(TimesOfLayer(setting, Make(8, 16), batch).attention,
              TimesOfLayer(setting, Make(4, 16), batch).attention * 1.1);
  }
}

TEST(Performance, LoadNeverMakesAStepFaster) {
  const Setting setting = On("deepseek-v3", "H200");
  for (const int b : {1, 2, 4}) {
    double before = 0;
    for (double batch = 1; batch <= 4096; batch *= 2) {
      const double tpot = TimePerOutputToken(setting, Make(4, 16, b), batch);
      EXPECT_GE(tpot, before * 0.999) << batch << ", b " << b;
      before = tpot;
    }
  }
}

TEST(Performance, RandomReplicasReadMoreThanAebs) {
  const Setting setting = On("deepseek-v2", "H100");
  Configuration how = Make(4, 16);
  const double aebs = TimesOfLayer(setting, how, 64).activated_busiest;
  how.is_random = true;
  EXPECT_GT(TimesOfLayer(setting, how, 64).activated_busiest, aebs);
}

// Compares with measured routing (routing_bench schedule: DeepSeek-V2-Lite, law placed on law, 64
// experts, top 6): experts of the busiest instance by instances, spare slots and rows, from what a
// step activated there. The difference is at most a tenth plus a quarter of an expert.
TEST(Performance, TheBusiestInstanceReadsWhatMeasuredRoutingMakesItRead) {
  struct Case {
    int n;
    double spare, activated, random, exact;
  };
  Setting setting = On("deepseek-v2", "H100");
  setting.model.experts = 64;
  setting.model.top_k = 6;
  for (const Case& c : {Case{8, 0, 46.5, 7.27, 7.27},
                        {8, 0.25, 46.5, 7.95, 6.60},
                        {8, 0.5, 46.5, 8.23, 6.23},
                        {8, 0.25, 64, 9.46, 8.12},
                        {8, 0.5, 64, 10.11, 8.00},
                        {16, 0.25, 46.5, 4.69, 4.08},
                        {16, 0.5, 46.5, 4.99, 3.69},
                        {16, 0.5, 62.5, 5.68, 4.32}}) {
    setting.activation.points = {{1, c.activated}, {64, c.activated}};
    Configuration how = Make(4, c.n);
    how.slots = static_cast<int>(64. / c.n * (1 + c.spare));
    const double scheduled = TimesOfLayer(setting, how, 64).activated_busiest;
    EXPECT_NEAR(scheduled, c.exact, 0.1 * c.exact + 0.25) << c.n << ", spare " << c.spare;
    how.is_random = true;
    const double random = TimesOfLayer(setting, how, 64).activated_busiest;
    EXPECT_NEAR(random, c.random, 0.1 * c.random + 0.25) << c.n << ", spare " << c.spare;
    EXPECT_GE(random, scheduled);
  }
}

// More instances than experts: an instance with rows reads a whole expert.
TEST(Performance, TheBusiestInstanceReadsAtLeastOneExpert) {
  const Setting setting = On("dbrx", "A100");
  EXPECT_GE(TimesOfLayer(setting, Make(8, 64), 4096).activated_busiest, 0.999);
  EXPECT_GE(TimesOfLayer(setting, Make(1, 16), 1).activated_busiest, 0.98);
}

// The expected largest of n normal values, in standard deviations (tables of order statistics).
TEST(Performance, TheBusiestInstanceHasTheExpectedLargestKeyLoad) {
  Setting setting = On("dbrx", "A100");
  setting.context_deviation = 1;
  for (const auto& [n, largest] :
       {std::pair(2, 0.564), {4, 1.029}, {8, 1.424}, {16, 1.766}, {32, 2.070}, {64, 2.344}}) {
    EXPECT_NEAR(BusiestKeysFactor(setting, n, 1), 1 + largest, 0.065) << n;
    EXPECT_NEAR(BusiestKeysFactor(setting, n, 100), 1 + largest / 10, 0.0065) << n;
  }
  EXPECT_EQ(BusiestKeysFactor(setting, 1, 1), 1);
}

TEST(Performance, WithoutSpareSlotsThereIsNothingToChoose) {
  const Setting setting = On("deepseek-v3", "H200");
  const auto busiest = [&](int slots, bool is_random) {
    Configuration how = Make(4, 16);
    how.slots = slots;
    how.is_random = is_random;
    return TimesOfLayer(setting, how, 16).activated_busiest;
  };
  EXPECT_DOUBLE_EQ(busiest(16, false), busiest(16, true));
  EXPECT_LT(busiest(20, false), busiest(16, false));
  EXPECT_LT(busiest(24, false), busiest(20, false));
  EXPECT_LT(busiest(24, false), busiest(24, true));
}

// An instance with one row has one micro-batch. Five instances with one row each have both.
TEST(Performance, AnInstanceWithFewerRowsThanMicroBatchesReadsItsWeightsOnceForEach) {
  const Setting setting = On("deepseek-v2", "H200");
  const StepLoad five = {5, 1024, 0, 0};
  const StepTimes two = TimesOfStep(setting, Make(7, 9, 2), five);
  const StepTimes one = TimesOfStep(setting, Make(7, 9, 1), five);
  EXPECT_NEAR(two.attention, one.attention, 1e-9);
  const double round_of_half =
      TimesOfLayer(setting, Make(7, 9, 1), {2.5, 1024, 0, 0}).experts * setting.model.layers;
  EXPECT_NEAR(two.experts, 2 * round_of_half, 1e-9);
  // A single row makes one round.
  const StepLoad single = {1, 1024, 0, 0};
  EXPECT_EQ(TimesOfStep(setting, Make(7, 9, 4), single),
            TimesOfStep(setting, Make(7, 9, 1), single));
  // Between one and two rows of an instance, means: ten rows on seven instances.
  const StepLoad ten = {10, 1024, 0, 0};
  const double layers = setting.model.layers;
  const LayerTimes layer = TimesOfLayer(setting, Make(7, 9, 2), ten);
  const StepTimes step = TimesOfStep(setting, Make(7, 9, 2), ten);
  const double dense = step.step - layers * layer.layer;
  EXPECT_NEAR(step.attention - dense, layers * 10 / 7 * (layer.attention + layer.shared), 1e-9);
}

TEST(Performance, SplittingASmallBatchReadsWeightsTwice) {
  const Setting setting = On("deepseek-v3", "H200");
  const double whole = TimesOfLayer(setting, Make(8, 16, 1), 256).experts;
  EXPECT_GT(2 * TimesOfLayer(setting, Make(8, 16, 2), 256).experts, 1.7 * whole);
  EXPECT_GT(4 * TimesOfLayer(setting, Make(8, 16, 4), 256).experts, 2.5 * whole);
}

TEST(Memory, CountsWeightsCacheAndSlots) {
  Setting setting = On("deepseek-v2", "H100", 1000);
  setting.spare_slots = 0;
  const MemoryUse use = MemoryOf(setting, Make(2, 8), 64);
  const ModelShape& model = setting.model;
  EXPECT_NEAR(use.attention_bytes, model.AttentionBytes() + 32 * 1000 * model.KvBytesPerToken(1),
              1e8);
  EXPECT_NEAR(use.expert_bytes, 20 * 59 * model.ExpertBytes(), 1e8);
  EXPECT_TRUE(use.fits_experts);
  EXPECT_FALSE(MemoryOf(setting, Make(2, 6), 64).fits_experts) << "27 slots, 75 GB of 72";
}

TEST(Memory, ThePapersSixInstancesNeedNinetyFivePercentOfAnH100) {
  Setting setting = On("deepseek-v2", "H100");
  setting.spare_slots = 0;
  setting.memory_share = 0.95;
  EXPECT_TRUE(MemoryOf(setting, Make(1, 6), 16).fits_experts);
  EXPECT_FALSE(MemoryOf(setting, Make(1, 5), 16).fits_experts);
}

// MegaScale-Infer, Fig. 12: sign and order of the gains of b = 2, 3 at constant micro-batch.
TEST(Performance, MicroBatchesGainAsInMegaScaleFigure12) {
  double last_third = 0;
  for (const char* model : {"mixtral-8x22b", "dbrx", "scaled-moe"}) {
    const Setting setting = On(model, "A100", 651);
    const auto rate = [&](int b) {
      Configuration how = Make(8, setting.model.experts, b);
      how.tp_attention = how.tp_experts = 2;
      how.gate = GateSide::kAttention;
      how.slots = 1;
      const double batch = b * 1024.0;
      return batch / TimePerOutputToken(setting, how, batch);
    };
    EXPECT_GT(rate(2) / rate(1), 1.7) << model;
    EXPECT_LT(rate(2) / rate(1), 2.0) << model;
    const double third = rate(3) / rate(2);
    EXPECT_GE(third, 0.999) << model;
    EXPECT_GT(third, last_third) << "larger models gain more from the third";
    last_third = third;
  }
}

// MegaScale-Infer, Fig. 13: throughput per GPU rises up to about 8 attention nodes, then falls.
TEST(Performance, BestAttentionDegreeOfDbrxIsAsInMegaScaleFigure13) {
  const Setting setting = On("dbrx", "A100", 651);
  const auto per_gpu = [&](int m) {
    Configuration how = Make(m, 16, 3);
    how.tp_attention = how.tp_experts = 2;
    how.gate = GateSide::kAttention;
    how.slots = 1;
    const double batch = 3 * 128.0 * m;
    return batch / TimePerOutputToken(setting, how, batch) / (2 * (m + 16));
  };
  EXPECT_LT(per_gpu(1), per_gpu(2));
  EXPECT_LT(per_gpu(2), per_gpu(4));
  EXPECT_LT(per_gpu(4), per_gpu(8));
  EXPECT_GT(per_gpu(8), 0.99 * per_gpu(12)) << "flat around the best";
  EXPECT_GT(per_gpu(12), per_gpu(16));
  EXPECT_GT(per_gpu(16), per_gpu(24));
}

}  // namespace
}  // namespace janus::controllers
