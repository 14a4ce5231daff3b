#include "controllers/plan/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "controllers/plan/terms.h"

namespace janus::controllers {
namespace {

Setting On(const char* model, const char* attention, const char* experts, double context = 651) {
  Setting setting;
  setting.model = *FindModel(model);
  setting.attention = *CostsOf(*FindHardware(attention), setting.model.bytes_per_weight);
  setting.experts = *CostsOf(*FindHardware(experts), setting.model.bytes_per_weight);
  setting.context = context;
  return setting;
}

TEST(SearchPlans, TheChosenPlanKeepsTheGoalAndNoCheaperOneDoes) {
  const Setting setting = On("deepseek-v2", "H100", "H100");
  const PlanGoal goal = {0.03, 256};
  const Result<PlanAnswer> answer = SearchPlans(setting, goal, {});
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  const Plan& best = answer->plans[0];
  EXPECT_LE(best.tpot_seconds, 0.03);
  // Exhaustive search, for tp 1.
  for (int m = 1; m <= 16; ++m) {
    for (int n = 1; n <= 32; ++n) {
      for (int b = 1; b <= 4; ++b) {
        for (const auto mode : {ExchangeMode::kDirect, ExchangeMode::kTwoPhaseSingle,
                                ExchangeMode::kTwoPhaseParallel}) {
          Configuration how;
          how.m = m;
          how.n = n;
          how.micro_batches = b;
          how.mode = mode;
          const auto plan = EvaluatePlan(setting, goal, {}, how);
          if (!plan) continue;
          EXPECT_GE(plan->cost, best.cost - 1e-9) << m << "A" << n << "E b" << b;
        }
      }
    }
  }
}

// Traffic for which the cheapest plan for decoding alone gives late first tokens.
PlanGoal WithFirstToken(double batch, double seconds) {
  PlanGoal goal = {0.1, batch};
  goal.traffic = {4, 2000, 200};
  goal.ttft_seconds = seconds;
  return goal;
}

// Calls visit(plan, seconds to its first token) for each plan that keeps the TPOT.
template <class Visit>
void ForEveryPlan(const Setting& setting, const PlanGoal& goal, const PlanSpace& space, int most_m,
                  int most_n, const Visit& visit) {
  Configuration how;
  for (how.m = 1; how.m <= most_m; ++how.m) {
    for (how.n = 1; how.n <= most_n; ++how.n) {
      for (how.micro_batches = 1; how.micro_batches <= 4; ++how.micro_batches) {
        for (const auto& [mode, gate] : kExchangesTried) {
          how.mode = mode;
          how.gate = gate;
          how.slots = QuickestSlots(setting, goal, space, how);
          const auto plan = EvaluatePlan(setting, goal, space, how);
          if (!plan) continue;
          visit(*plan, FirstTokenOf(goal, StepperOf(setting, plan->how, plan->batch)).seconds);
        }
      }
    }
  }
}

TEST(SearchPlans, TheChosenPlanKeepsTheFirstTokenAndNoCheaperOneDoes) {
  const Setting setting = On("deepseek-v2", "H100", "H100");
  PlanSpace space;
  space.max_tensor_parallel = 1;
  const PlanGoal goal = WithFirstToken(256, 1);
  const Result<PlanAnswer> answer = SearchPlans(setting, goal, space);
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  const Plan& best = answer->plans[0];
  ASSERT_TRUE(best.first_token.has_value());
  EXPECT_LE(best.first_token->seconds, 1);
  EXPECT_GT(best.cost, SearchPlans(setting, {0.1, 256}, space)->plans[0].cost);
  int tried = 0;
  ForEveryPlan(setting, goal, space, 16, 32, [&](const Plan& plan, double seconds) {
    if (plan.cost > best.cost - 1e-9) return;
    ++tried;
    EXPECT_GT(seconds, 1) << plan.how.m << "A" << plan.how.n << "E b" << plan.how.micro_batches;
  });
  EXPECT_GT(tried, 10);
}

// Compares with all plans. Strides over numbers of experts may miss by a hundredth.
TEST(SearchPlans, AFirstTokenThatOnlyTheSoonestKeepsIsFound) {
  for (const double rate : {1., 4., 16.}) {
    const Setting setting = On("deepseek-v2", "H100", "H100");
    PlanSpace space;
    space.max_tensor_parallel = 1;
    space.max_attention_gpus = 16;
    space.max_expert_gpus = 40;
    PlanGoal goal = WithFirstToken(256, 1e-3);
    goal.traffic.requests_per_second = rate;
    double soonest = HUGE_VAL;
    ForEveryPlan(setting, goal, space, space.max_attention_gpus, space.max_expert_gpus,
                 [&](const Plan&, double seconds) { soonest = std::min(soonest, seconds); });
    ASSERT_TRUE(std::isfinite(soonest)) << rate;
    goal.ttft_seconds = soonest * 1.01;
    const auto kept = SearchPlans(setting, goal, space);
    EXPECT_TRUE(kept.ok()) << rate << ": " << kept.status().ToString();
    goal.ttft_seconds = soonest * (1 - 1e-6);
    EXPECT_EQ(SearchPlans(setting, goal, space).status().code(), StatusCode::kFailedPrecondition);
  }
}

TEST(SearchPlans, WhatMissesTheFirstTokenIsRuledOutWithItsReason) {
  for (const double batch : {0., 256.}) {
    // A little earlier than the plan that is best for decoding alone.
    const Setting setting = On("deepseek-v2", "H100", "H100");
    PlanGoal goal = WithFirstToken(batch, 0);
    const double late = SearchPlans(setting, goal, {})->plans[0].first_token->seconds;
    goal.ttft_seconds = std::min(0.98 * late, 1.0);
    const PlanAnswer answer = *SearchPlans(setting, goal, {});
    EXPECT_FALSE(answer.plans[0].is_ruled_out);
    EXPECT_EQ(answer.plans[0].lost_by, "");
    ASSERT_TRUE(answer.plans[1].is_ruled_out) << batch;
    size_t ruled_out = 0;
    for (const Plan& plan : answer.plans) {
      ASSERT_TRUE(plan.first_token.has_value());
      EXPECT_EQ(plan.first_token->seconds > goal.ttft_seconds, plan.is_ruled_out);
      if (!plan.is_ruled_out) continue;
      ++ruled_out;
      EXPECT_TRUE(IsBetter(goal, plan, answer.plans[0]));
      EXPECT_NE(plan.lost_by.find("first token"), std::string::npos) << plan.lost_by;
    }
    EXPECT_LE(ruled_out, kMostRuledOut);
    for (const WholePlan& whole : answer.wholes) {
      EXPECT_LE(whole.first_token->seconds, goal.ttft_seconds) << NameOf(whole.how);
    }
    ASSERT_FALSE(answer.wholes.empty());
  }
}

TEST(SearchPlans, AnEarlierFirstTokenNeverCostsLess) {
  const Setting setting = On("deepseek-v2", "H100", "H100");
  const double without = SearchPlans(setting, {0.1, 256}, {})->plans[0].cost;
  double before = without;
  for (const double seconds : {1000., 10., 2., 1., 0.7}) {
    const Result<PlanAnswer> answer = SearchPlans(setting, WithFirstToken(256, seconds), {});
    ASSERT_TRUE(answer.ok()) << seconds << ": " << answer.status().ToString();
    EXPECT_GE(answer->plans[0].cost, before) << seconds;
    before = answer->plans[0].cost;
  }
  EXPECT_GT(before, without);
}

TEST(SearchPlans, AFirstTokenThatNoneKeepsNamesTheSoonest) {
  PlanSpace space;
  space.max_attention_gpus = 8;
  space.max_expert_gpus = 16;
  const Status status =
      SearchPlans(On("deepseek-v2", "H100", "H100"), WithFirstToken(256, 0.1), space).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find(
                "no plan that was tried has a first token within 0.1 s at p95; the soonest is "),
            std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find(" s, the target is 0.1 s"), std::string::npos)
      << status.message();
}

// Copies share the traffic. The plan takes as many as first tokens need.
TEST(SearchPlans, AWholeTakesTheCopiesThatFirstTokensAskFor) {
  const Setting setting = On("deepseek-v2", "H100", "H100");
  PlanGoal goal = WithFirstToken(0, 1);
  goal.traffic.requests_per_second = 40;
  const PlanAnswer answer = *SearchPlans(setting, goal, {});
  ASSERT_FALSE(answer.wholes.empty());
  for (const WholePlan& whole : answer.wholes) {
    EXPECT_LE(whole.first_token->seconds, 1);
    if (whole.copies == 1) continue;
    WholePlan fewer = whole;
    fewer.batch = whole.batch / whole.copies * (whole.copies - 1);
    fewer.copies = whole.copies - 1;
    EXPECT_GT(FirstTokenOf(goal, StepperOf(setting, fewer)).seconds, 1) << NameOf(whole.how);
  }
  EXPECT_TRUE(std::ranges::any_of(answer.wholes, [](const auto& w) { return w.copies > 1; }));
}

TEST(SearchPlans, ALimitOnAllGpusIsKept) {
  const Setting setting = On("deepseek-v2", "H100", "H100");
  PlanSpace space;
  space.max_gpus = 10;
  const PlanAnswer answer = *SearchPlans(setting, {0.2, 0}, space);
  EXPECT_GT(SearchPlans(setting, {0.2, 0}, {})->plans[0].gpus, 10);
  for (const Plan& plan : answer.plans) EXPECT_LE(plan.gpus, 10);
  for (const WholePlan& plan : answer.wholes) EXPECT_LE(plan.gpus, 10);
  const std::string late = SearchPlans(setting, {0.001, 8}, space).status().message();
  EXPECT_NE(late.find("a plan may use 10 of them"), std::string::npos) << late;
  space.max_gpus = 4;
  const std::string few = SearchPlans(setting, {0.2, 8}, space).status().message();
  EXPECT_NE(few.find("deepseek-v2 does not fit 4 GPUs"), std::string::npos) << few;
  space.max_gpus = 1;
  EXPECT_EQ(SearchPlans(setting, {0.2, 8}, space).status().code(), StatusCode::kInvalidArgument);
}

TEST(SearchPlans, MoreLoadNeverCostsLess) {
  const Setting setting = On("deepseek-v2", "H100", "H100");
  double before = 0;
  for (double batch = 4; batch <= 4096; batch *= 2) {
    const Result<PlanAnswer> answer = SearchPlans(setting, {0.04, batch}, {});
    ASSERT_TRUE(answer.ok()) << batch << ": " << answer.status().ToString();
    EXPECT_GE(answer->plans[0].cost, before) << batch;
    before = answer->plans[0].cost;
  }
}

TEST(SearchPlans, RunnersUpSayWhyTheyLost) {
  const PlanAnswer answer = *SearchPlans(On("deepseek-v2", "H100", "H100"), {0.2, 64}, {});
  ASSERT_GT(answer.plans.size(), 2u);
  EXPECT_TRUE(answer.plans[0].lost_by.empty());
  for (size_t i = 1; i < answer.plans.size(); ++i) EXPECT_FALSE(answer.plans[i].lost_by.empty());
}

TEST(SearchPlans, NoConfigurationIsListedTwice) {
  const PlanAnswer answer = *SearchPlans(On("deepseek-v3", "H200", "H200", 1024), {0.05, 0}, {});
  for (size_t i = 0; i < answer.plans.size(); ++i) {
    for (size_t j = 0; j < i; ++j)
      EXPECT_FALSE(answer.plans[i].how == answer.plans[j].how) << i << " and " << j;
  }
}

TEST(SearchPlans, AttentionMayOutnumberExpertsManyTimes) {
  // Long contexts need attention; the ratio has no limit.
  const PlanAnswer answer = *SearchPlans(On("deepseek-v3", "H200", "H200", 131072), {0.1, 0}, {});
  EXPECT_GT(answer.plans[0].how.m, 4 * answer.plans[0].how.n);
}

TEST(SearchPlans, H20AttentionWithL40SExpertsBeatsEitherWholeAsInMegaScaleFigure9) {
  for (const char* model : {"mixtral-8x22b", "dbrx", "scaled-moe"}) {
    const PlanAnswer mixed = *SearchPlans(On(model, "H20", "L40S"), {0.15, 0}, {});
    const PlanAnswer h20 = *SearchPlans(On(model, "H20", "H20"), {0.15, 0}, {});
    ASSERT_FALSE(h20.wholes.empty());
    const double gain = mixed.plans[0].tokens_per_second / mixed.plans[0].cost /
                        (h20.wholes[0].tokens_per_second / h20.wholes[0].cost);
    EXPECT_GT(gain, 1.3) << model;
  }
}

TEST(SearchPlans, SaysNotToSeparateWhereTheWholeModelIsCheaper) {
  const PlanAnswer small = *SearchPlans(On("deepseek-v2", "H100", "H100"), {0.2, 4}, {});
  EXPECT_FALSE(small.is_separation_worthwhile) << "8 GPUs hold it either way";
  EXPECT_EQ(small.wholes[0].gpus, 8);
  EXPECT_LT(small.wholes[0].tpot_seconds, small.plans[0].tpot_seconds);
  const PlanAnswer mixed = *SearchPlans(On("scaled-moe", "H20", "L40S"), {0.15, 0}, {});
  EXPECT_TRUE(mixed.is_separation_worthwhile);
}

// The pools have different devices. Either may carry the whole model, with its own price and size.
TEST(SearchPlans, TheWholeIsTriedOnEitherDevice) {
  PlanSpace space;
  space.max_attention_gpus = 16;
  space.max_expert_gpus = 32;
  const PlanAnswer answer = *SearchPlans(On("dbrx", "H20", "L40S"), {0.15, 0}, space);
  int on_h20 = 0;
  for (const WholePlan& plan : answer.wholes) {
    on_h20 += plan.device == "H20";
    EXPECT_LE(plan.gpus, plan.device == "H20" ? 16 : 32);
    EXPECT_NEAR(plan.cost, plan.gpus * (plan.device == "H20" ? 1.85 : 1.08), 1e-9);
    EXPECT_LE(plan.tpot_seconds, 0.15);
    EXPECT_LE(plan.bytes, 0.9 * (plan.device == "H20" ? 96e9 : 48e9) * 1.000001);
    EXPECT_EQ(plan.lost_by.empty(), &plan == &answer.wholes[0]);
  }
  EXPECT_GT(on_h20, 0);
  EXPECT_LT(on_h20, static_cast<int>(answer.wholes.size()));
}

TEST(SearchPlans, SurvivableAsksForSlotsBeyondTheLargestPod) {
  const Setting setting = On("deepseek-v2", "H100", "H100");
  PlanSpace space;
  const int plain = SearchPlans(setting, {0.2, 16}, space)->plans[0].how.n;
  space.is_survivable = true;
  space.instances_per_pod = 4;
  const Plan survivable = SearchPlans(setting, {0.2, 16}, space)->plans[0];
  EXPECT_GT(survivable.gpus, plain + 1);
  EXPECT_GE((survivable.how.n - 4) * survivable.how.slots, 160);
  EXPECT_TRUE(survivable.memory.fits_experts) << "with those slots";
}

TEST(SearchPlans, WholePodsAreMultiplesAndCostNoLess) {
  const Setting setting = On("deepseek-v2", "H100", "H100");
  PlanSpace space;
  for (const double batch : {0., 2000.}) {
    const PlanGoal goal = {0.05, batch};
    space.fills_pods = false;
    const Plan free = SearchPlans(setting, goal, space)->plans[0];
    space.fills_pods = true;
    space.instances_per_pod = 4;
    const PlanAnswer whole = *SearchPlans(setting, goal, space);
    for (const Plan& plan : whole.plans) {
      EXPECT_EQ(plan.how.m % 4, 0);
      EXPECT_EQ(plan.how.n % 4, 0);
    }
    EXPECT_FALSE(IsBetter(goal, whole.plans[0], free));
  }
}

// k = 8 contributions of two bytes per value, or one sum of four bytes from every node that a row
// needs. If there are few nodes, a row needs nearly all of them.
TEST(SearchPlans, FixedPointSumsPayBelowHalfOfTopKNodes) {
  const Setting setting = On("deepseek-v3", "H200", "H200");
  const auto back = [&](int n, SumRule sum) {
    Configuration how;
    how.m = 16;
    how.n = n;
    how.mode = ExchangeMode::kTwoPhaseParallel;
    how.sum = sum;
    return TimesOfExchange(setting, how, 4096).back;
  };
  EXPECT_LT(back(16, SumRule::kFixedPoint), 0.8 * back(16, SumRule::kContributions));
  EXPECT_GT(back(64, SumRule::kFixedPoint), back(64, SumRule::kContributions));

  PlanSpace space;
  const Plan served = SearchPlans(setting, {0.05, 0}, space)->plans[0];
  EXPECT_EQ(served.how.sum, SumRule::kContributions) << "unless it is asked for";
  space.tries_fixed_point = true;
  EXPECT_FALSE(IsBetter({0.05, 0}, served, SearchPlans(setting, {0.05, 0}, space)->plans[0]));
}

// Slots are chosen, not just filled: if a step reads every expert anyway, a replica only costs.
TEST(SearchPlans, SlotsAreAsManyAsPay) {
  const Setting setting = On("deepseek-v3", "H200", "H200", 1024);
  for (const double batch : {32., 8192.}) {
    const Plan best = SearchPlans(setting, {0.1, batch}, {})->plans[0];
    EXPECT_GE(best.how.slots * best.how.n, 256);
    EXPECT_LE(best.how.slots, SlotsPerInstance(setting, best.how));
    for (const int slots : {best.how.slots - 1, best.how.slots * 3 / 2}) {
      Configuration other = best.how;
      other.slots = slots;
      if (slots * other.n < 256 || !MemoryOf(setting, other, batch).fits_experts) continue;
      EXPECT_GE(TimePerOutputToken(setting, other, batch), 0.98 * best.tpot_seconds) << slots;
    }
  }
}

TEST(SearchPlans, ABatchLimitIsKept) {
  PlanSpace space;
  space.max_batch_per_attention = 32;
  const PlanAnswer answer = *SearchPlans(On("deepseek-v3", "H200", "H200"), {0.1, 0}, space);
  for (const Plan& plan : answer.plans) EXPECT_LE(plan.batch, 32 * plan.how.m);
  for (const WholePlan& plan : answer.wholes) EXPECT_LE(plan.batch, 32 * plan.gpus);
}

// Plans that fit in one node use its inner links instead of the network.
TEST(SearchPlans, ASharedNodeExchangesInside) {
  Setting setting = On("deepseek-v2", "H100", "H100");
  Configuration how;
  how.n = 7;
  const ExchangeTimes across = TimesOfExchange(setting, how, 64);
  setting.shares_node = true;
  EXPECT_LT(TimesOfExchange(setting, how, 64).out, across.out);
  EXPECT_LT(TimesOfExchange(setting, how, 64).back, across.back);
  how.n = 8;  // nine GPUs
  setting.shares_node = false;
  const double apart = TimesOfExchange(setting, how, 64).out;
  setting.shares_node = true;
  EXPECT_EQ(TimesOfExchange(setting, how, 64).out, apart);
}

TEST(SearchPlans, AModelLargerThanThePoolIsNamedWithItsBytes) {
  PlanSpace space;
  space.max_expert_gpus = 4;
  const Status status = SearchPlans(On("deepseek-v3", "L40S", "L40S"), {0.2, 4}, space).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("deepseek-v3 does not fit: each GPU for experts would hold"),
            std::string::npos)
      << status.message();
}

// The error is not a missed latency: no allowed number of GPUs holds the weights.
TEST(SearchPlans, AModelLargerThanTheLimitsOnGpusIsNamedToo) {
  PlanSpace space;
  space.max_attention_gpus = 1;
  space.max_expert_gpus = 2;
  const Setting setting = On("deepseek-v3", "H200", "H200");
  const std::string few = SearchPlans(setting, {0.1, 64}, space).status().message();
  EXPECT_NE(few.find("each GPU for experts would hold"), std::string::npos) << few;
  EXPECT_NE(few.find("even with all 2 GPUs"), std::string::npos) << few;

  space = {};
  space.max_gpus = 4;
  const std::string both = SearchPlans(setting, {0.1, 64}, space).status().message();
  EXPECT_NE(
      both.find(
          "deepseek-v3 does not fit 4 GPUs: with attention and experts apart it needs at least "),
      std::string::npos)
      << both;
  // The number that it names is enough for a weak target, and one fewer is not.
  const int fewest = std::stoi(both.substr(both.find("at least ") + 9));
  space.max_gpus = fewest;
  EXPECT_TRUE(SearchPlans(setting, {10, 64}, space).ok());
  space.max_gpus = fewest - 1;
  EXPECT_NE(SearchPlans(setting, {10, 64}, space).status().message().find("does not fit"),
            std::string::npos);
}

TEST(SearchPlans, LatentAttentionOverSeveralGpusIsRefusedByItsName) {
  PlanSpace space;
  space.pins.tp_attention = 2;
  const PlanGoal goal = {0.1, 64};
  const Status latent = SearchPlans(On("deepseek-v3", "H200", "H200"), goal, space).status();
  EXPECT_EQ(latent.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(latent.message().find("deepseek-v3 keeps latent keys"), std::string::npos)
      << latent.message();
  EXPECT_TRUE(SearchPlans(On("mixtral-8x22b", "H200", "H200"), goal, space).ok());
}

TEST(SearchPlans, AnImpossibleTargetNamesTheFastestPlan) {
  const Status status = SearchPlans(On("deepseek-v3", "H200", "H200"), {0.001, 64}, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("no plan keeps a TPOT of 1 ms; with every GPU allowed it is"),
            std::string::npos)
      << status.message();
}

TEST(SearchPlans, WhatTheWholeModelKeepsIsSaidWhereNoPlanDoes) {
  // One sequence: separated plans cannot avoid one more hop per layer.
  const Setting setting = On("deepseek-v3", "H200", "H200");
  const Status status = SearchPlans(setting, {0.011, 1}, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
  EXPECT_NE(status.message().find("; not separated, TP"), std::string::npos) << status.message();
}

TEST(SearchPlans, PodsAndBatchesThatCannotBeAreNamed) {
  const Setting setting = On("deepseek-v2", "H100", "H100");
  const auto says = [&](const PlanGoal& goal, const PlanSpace& space, const char* part) {
    const Status status = SearchPlans(setting, goal, space).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  };
  PlanSpace space;
  space.max_expert_gpus = 8;
  space.is_survivable = true;
  space.instances_per_pod = 8;
  says({0.2, 16}, space,
       "with 8 GPUs for experts, the loss of a pod leaves too few slots (a pod has 8 instances)");
  space = {};
  space.fills_pods = true;
  space.instances_per_pod = 200;
  says({0.2, 16}, space, "a pod of 200 instances needs more GPUs than");
  space = {};
  space.max_batch_per_attention = 8;
  says({0.2, 2000}, space, "a batch of 2000 is more than the 1024 sequences that");
}

TEST(SearchPlans, RefusesNumbersThatAreNone) {
  const Setting setting = On("dbrx", "A100", "A100");
  EXPECT_FALSE(SearchPlans(setting, {std::nan(""), 4}, {}).ok());
  EXPECT_FALSE(SearchPlans(setting, {0, 4}, {}).ok());
  EXPECT_FALSE(SearchPlans(setting, {0.1, -1}, {}).ok());
  PlanGoal late = {0.1, 4};
  late.ttft_seconds = 1;
  EXPECT_NE(SearchPlans(setting, late, {}).status().message().find("want the rate of requests"),
            std::string::npos);
  late.traffic = {1, 100, 10};
  late.ttft_percentile = 1;
  EXPECT_NE(SearchPlans(setting, late, {}).status().message().find("percentile of first tokens"),
            std::string::npos);
  late.ttft_seconds = std::nan("");
  EXPECT_FALSE(SearchPlans(setting, late, {}).ok());
  Setting broken = setting;
  broken.experts.hardware.price = 0;
  EXPECT_EQ(SearchPlans(broken, {0.1, 4}, {}).status().message(),
            "HardwareProfile A100: price is 0.000000; want a positive number");
  broken.experts.hardware.price = std::nan("");
  EXPECT_FALSE(SearchPlans(broken, {0.1, 4}, {}).ok());
  PlanSpace none;
  none.instances_per_pod = 0;
  EXPECT_FALSE(SearchPlans(setting, {0.1, 4}, none).ok());
  none = {};
  none.max_batch_per_attention = 0;
  EXPECT_FALSE(SearchPlans(setting, {0.1, 4}, none).ok());
  broken = setting;
  broken.context = std::nan("");
  EXPECT_FALSE(SearchPlans(broken, {0.1, 4}, {}).ok());
}

}  // namespace
}  // namespace janus::controllers
