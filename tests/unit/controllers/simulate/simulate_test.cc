#include "controllers/simulate/simulate.h"

#include <gtest/gtest.h>

#include "controllers/scaling/predictor.h"
#include "controllers/simulate/perturbed.h"
#include "controllers/simulate/separated_policies.h"
#include "controllers/simulate/steady.h"
#include "tests/support/random.h"
#include "tests/unit/controllers/simulate/worlds.h"

namespace janus::controllers {
namespace {

// One request and one instance of each kind, at points of the step table: one step over its 256
// prompt rows, then one over 256 keys and one over 257. Each takes as long as the plan's model
// says.
TEST(Simulate, TakesTheStepsOfASingleRequestByHand) {
  Simulated world;
  const Wish wish = Separated(1, 8);
  const auto step = [&](double rows, double keys, double prompts) {
    return TimesOfStep(world.setting, wish.how, {rows, keys, prompts, 300}).step;
  };
  const double prompt = step(0, 16, 256);
  const double next_point = std::exp2(8.5);
  const double at_256 = step(1, 256, 0);
  const double per_key = (step(1, next_point, 0) - at_256) / (next_point - 256);
  const SimulationRun run = world.Always({{5, 256, 3, 1}}, wish);
  EXPECT_EQ(run.totals.finished, 1);
  EXPECT_EQ(run.totals.attained, 1);
  EXPECT_NEAR(run.totals.ttft_p50, prompt, 0.02 * prompt);  // bins of 2 %
  const double tpot = (at_256 + at_256 + per_key) / 2;
  EXPECT_NEAR(run.totals.tpot_p50, tpot, 0.02 * tpot);
}

// 100 requests of one token each arrive while another is computed. A step has room for 4,096 prompt
// rows: 101 prompts of 512 take 1 + 12.5 steps.
TEST(Simulate, PromptsQueueForTheRowsOfAStep) {
  Simulated world;
  world.scaling.tpot.seconds = 10;  // no step is ever too long for prompts
  ShapeBook book(world.setting, world.machinery, world.scaling, 300);
  const Wish wish = Separated(1, 8);
  std::vector<SimulatedRequest> requests = {{0, 512, 1, 1}, {1e-6, 512, 1, 100}};
  Scripted policy({wish}, 3600);
  const auto run = Simulate(requests, &book, &policy, OptionsOf(world.scaling), {});
  ASSERT_TRUE(run.ok());
  const double all = TimesOfStep(world.setting, wish.how, {0, 16, 4096, 300}).step;
  EXPECT_EQ(run->totals.finished, 101);
  // The group of 100 ends together: after the first request's step, 12 full steps and half a step.
  EXPECT_GT(run->totals.ttft_p99, 12 * all);
  EXPECT_LT(run->totals.ttft_p99, 14 * all);
}

TEST(Simulate, PaysForInstancesFromAskedForToGone) {
  Simulated world;
  world.machinery.start_s = 100;
  world.machinery.drain_s = 50;
  // One request at the beginning and one at the end: their work hardly matters.
  const std::vector<SimulatedRequest> requests = {{0, 10, 10, 1}, {1000, 10, 10, 1}};
  Scripted policy({Separated(2, 8), Separated(4, 8), Separated(4, 8), Separated(1, 8)}, 200);
  const SimulationRun run = world.Run(requests, policy);
  // 10 GPUs until 200; 12 from the request at 200 until 600; then 9, and 3 for another 50 s.
  EXPECT_NEAR(run.totals.gpu_hours * 3600, 10 * 200 + 12 * 400 + 9 * 400 + 3 * 50, 1e-6);
  EXPECT_EQ(run.totals.peak_gpus, 12);
  // New instances become members 100 s after the request.
  ASSERT_EQ(policy.looks.size(), 5u);
  EXPECT_EQ(policy.looks[0].world.current.m, 2);  // at 200
  EXPECT_EQ(policy.looks[1].world.current.m, 4);  // at 400
  EXPECT_EQ(policy.looks[1].world.attention.start_seconds, std::vector<double>{100});
}

TEST(Simulate, PaysForWholeInstancesUntilTheirLastSequenceEnded) {
  Simulated world;
  world.machinery.start_s = 100;
  world.machinery.drain_s = 50;
  const std::vector<SimulatedRequest> requests = {{0, 10, 10, 1}, {1000, 10, 10, 1}};
  Scripted policy({WholeInstances(1, 16), WholeInstances(3, 16), WholeInstances(1, 16)}, 200);
  const SimulationRun run = world.Run(requests, policy);
  // Two more from 200; at 400 they are empty and stop.
  EXPECT_NEAR(run.totals.gpu_hours * 3600, 16 * 1000 + 32 * 200 + 32 * 50, 1e-6);
}

TEST(Simulate, ConservesRequestsTokensAndGpuHoursWhileMembersComeAndGo) {
  Simulated world;
  for (uint64_t run = 0; run < 4; ++run) {
    SCOPED_TRACE(run);
    const auto requests = Hill(60, 1800, MixSeed(TestSeed(), run));
    Scripted separated({Separated(2, 8), Separated(4, 10), Separated(1, 8), Separated(3, 9)}, 200);
    ExpectConservation(requests, world.Run(requests, separated));
    Scripted whole({WholeInstances(1, 16), WholeInstances(4, 16), WholeInstances(2, 16),
                    WholeInstances(1, 32), WholeInstances(2, 16)},
                   250);
    ExpectConservation(requests, world.Run(requests, whole));
  }
}

TEST(Simulate, GivesTheSameRunAgain) {
  Simulated world;
  const auto requests = Hill(60, 1200, 2);
  const auto run = [&] {
    Scripted policy({WholeInstances(2, 16), WholeInstances(3, 16), WholeInstances(1, 16)}, 200);
    return world.Run(requests, policy);
  };
  const SimulationRun first = run();
  const SimulationRun second = run();
  EXPECT_EQ(first.totals.gpu_hours, second.totals.gpu_hours);
  EXPECT_EQ(first.totals.attained, second.totals.attained);
  EXPECT_EQ(first.totals.tpot_p99, second.totals.tpot_p99);
  EXPECT_EQ(first.gpus, second.gpus);
}

TEST(Simulate, MoreInstancesAttainNoLessAndMoreLoadNoMore) {
  Simulated world;
  const auto requests = Hill(60, 600, 3);
  double last = 0;
  for (const int m : {1, 2, 4, 8}) {
    const double attained = world.Always(requests, Separated(m, 16)).totals.Attainment();
    EXPECT_GE(attained, last - 0.002) << m;
    last = attained;
  }
  last = 1;
  for (const double rate : {10.0, 40.0, 160.0, 640.0}) {
    const double attained = world.Always(Hill(rate, 300, 4), Separated(2, 10)).totals.Attainment();
    EXPECT_LE(attained, last + 0.002) << rate;
    last = attained;
  }
  EXPECT_LT(last, 0.5);
}

// The simulation settles at the plan's value for a steady load: the median TPOT within 4 % (from
// the grid of step times, and steps with varying numbers of sequences), with few and many sequences
// and with prompts.
TEST(Simulate, SettlesAtThePlansTpot) {
  Simulated world;
  world.scaling.ttft.reset();
  world.scaling.tpot.percentile = 0.5;
  for (const auto& [rate, input, output] :
       {std::tuple(4.0, 64, 400), {20.0, 64, 400}, {40.0, 64, 400}, {10.0, 1500, 200}}) {
    const auto requests = Steadily(rate, 1500, input, output, 7);
    const Demand demand = DemandOf(requests, 1500);
    Setting setting = world.setting;
    setting.context = demand.context;
    const auto predictor = Predictor::Create(setting, WithAllModes({32, 64}));
    ASSERT_TRUE(predictor.ok());
    const Prediction plan = predictor->Steady(4, 12, demand, world.scaling);
    ShapeBook book(setting, world.machinery, world.scaling, input / 2.0);
    Scripted policy({Wish::Separate(plan.how)}, 3600);
    const auto run = Simulate(requests, &book, &policy, OptionsOf(world.scaling), {});
    ASSERT_TRUE(run.ok());
    ASSERT_EQ(run->totals.refused, 0);
    EXPECT_NEAR(run->totals.tpot_p50, plan.tpot_seconds, 0.04 * plan.tpot_seconds)
        << rate << " requests/s of " << input << " + " << output;
  }
}

// The time to first token of the plan (a queue of prompts) and of the simulation (which knows each
// request) differ by less than a third at the 95th percentile.
TEST(Simulate, FirstTokensComeAboutWhenThePlanSays) {
  Simulated world;
  const auto predictor = Predictor::Create(world.setting, {32, 64});
  ASSERT_TRUE(predictor.ok());
  for (const double rate : {2.0, 6.0, 10.0}) {
    const auto requests = Steadily(rate, 3000, 2000, 100, 9);
    const Prediction plan = predictor->Steady(4, 12, DemandOf(requests, 3000), world.scaling);
    const SimulationRun run = world.Always(requests, Wish::Separate(plan.how));
    EXPECT_NEAR(run.totals.ttft_p95, plan.ttft_seconds, plan.ttft_seconds / 3) << rate;
  }
}

TEST(Simulate, ShowsAnOperatorWhatItCouldMeasure) {
  Simulated world;
  const auto requests = Steadily(80, 900, 400, 150, 5);
  Scripted policy({Separated(3, 10)}, 60);
  const SimulationRun run = world.Run(requests, policy);
  const World& seen = policy.looks[policy.looks.size() / 2].world;
  EXPECT_EQ(seen.attention.ready, 3);
  EXPECT_EQ(seen.experts.ready, 10);
  EXPECT_FALSE(seen.in_flight.has_value());
  ASSERT_TRUE(seen.step.has_value());
  // The measured step equals the model's for the measured load, except for chance within 60 s.
  const double modelled = TimesOfStep(world.setting, seen.current, seen.step->load).step;
  EXPECT_NEAR(seen.step->seconds.step, modelled, 0.03 * modelled);
  ASSERT_TRUE(seen.observed.tpot_seconds.has_value());
  EXPECT_NEAR(*seen.observed.tpot_seconds, run.totals.tpot_p95, 0.2 * run.totals.tpot_p95);
  EXPECT_NEAR(seen.arrivals[0].requests_per_second, 80, 8);
  EXPECT_NEAR(seen.arrivals[1].requests_per_second, 80, 4);
  EXPECT_EQ(seen.lengths.output_tokens, 150);
  EXPECT_NEAR(seen.lengths.prompt_squared_variation, 0, 1e-9);
}

TEST(Simulate, RefusesAWishThatCannotHoldTheModel) {
  Simulated world;
  Scripted policy({Separated(1, 2)}, 60);
  const auto run = Simulate(Hill(10, 60, 6), &world.book, &policy, OptionsOf(world.scaling), {});
  EXPECT_EQ(run.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(run.status().message().find("1A2E, which cannot hold deepseek-v2"), std::string::npos)
      << run.status().message();
}

// A prompt that was computed elsewhere takes its room, and one row.
TEST(Simulate, CachedPromptsTakeRoomButNoTime) {
  Simulated world;
  const SimulationRun cold = world.Always({{0, 4096, 2, 1}}, Separated(1, 8));
  const SimulationRun warm = world.Always({{0, 4096, 2, 1, 4095}}, Separated(1, 8));
  EXPECT_LT(warm.totals.ttft_p50, 0.5 * cold.totals.ttft_p50);
  EXPECT_EQ(warm.totals.tpot_p50, cold.totals.tpot_p50);
}

// Counts requests, as an operator's gateways do, not groups.
TEST(Recorder, CountsOnceWhatEndedAndWhatAttained) {
  Recorder recorder({0.1, 10}, 3600, 0.95);
  const SimulatedRequest request = {0, 10, 11, 3};
  recorder.OnFinished({request, 1, 1.5});    // 50 ms a token
  recorder.OnFinished({request, 1, 3});      // 200 ms
  recorder.OnFinished({request, 11, 11.5});  // first token after 11 s
  recorder.OnRefused(request, 1);
  EXPECT_EQ(recorder.TakeRecent().ended, (Ended{12, 3}));
  EXPECT_EQ(recorder.TakeRecent().ended, Ended{});
  EXPECT_EQ(recorder.Sum().attained, 3);
}

TEST(Perturbed, StretchesEachTermByItself) {
  const Setting believed = DeepSeekV2();
  const Wish wish = Separated(4, 12);
  const StepLoad load = {200, 700, 300, 400};
  const StepTimes plain = TimesOfStep(believed, wish.how, load);
  const StepTimes attention = TimesOfStep(Perturbed(believed, {1.2, 1, 1}), wish.how, load);
  const StepTimes experts = TimesOfStep(Perturbed(believed, {1, 0.8, 1}), wish.how, load);
  const StepTimes exchange = TimesOfStep(Perturbed(believed, {1, 1, 1.2}), wish.how, load);
  EXPECT_NEAR(attention.attention, 1.2 * plain.attention, 1e-9);
  EXPECT_EQ(attention.experts, plain.experts);
  EXPECT_EQ(attention.exchange, plain.exchange);
  EXPECT_NEAR(experts.experts, 0.8 * plain.experts, 1e-9);
  EXPECT_EQ(experts.attention, plain.attention);
  // The time to post a message is not a coefficient.
  EXPECT_NEAR(exchange.exchange, 1.2 * plain.exchange, 0.05 * plain.exchange);
  EXPECT_EQ(exchange.experts, plain.experts);
}

TEST(DurationHistogram, TellsPercentilesWithinTwoPercent) {
  DurationHistogram histogram;
  for (int i = 1; i <= 10'000; ++i) histogram.Add(i * 1e-3, 3);
  EXPECT_EQ(histogram.count(), 30'000);
  for (const double share : {0.01, 0.5, 0.95, 0.99}) {
    EXPECT_NEAR(histogram.Percentile(share), 10 * share, 0.021 * 10 * share);
  }
  histogram.Clear();
  EXPECT_EQ(histogram.Percentile(0.5), 0);
}

}  // namespace
}  // namespace janus::controllers
