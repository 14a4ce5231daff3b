#include <gtest/gtest.h>

#include "controllers/scaling/cheapest.h"
#include "controllers/simulate/compare.h"
#include "controllers/simulate/perturbed.h"
#include "controllers/simulate/separated_policies.h"
#include "controllers/simulate/stabilizer.h"
#include "controllers/simulate/steady.h"
#include "controllers/simulate/whole_policies.h"
#include "tests/support/random.h"
#include "tests/unit/controllers/simulate/worlds.h"

namespace janus::controllers {
namespace {

WholeInputs Whole(Simulated& world) {
  WholeInputs inputs;
  inputs.book = &world.book;
  inputs.tpot_seconds = world.scaling.tpot.seconds;
  return inputs;
}

Comparison Compared(const Simulated& world) {
  Comparison comparison;
  comparison.belief = comparison.truth = world.setting;
  comparison.scaling = world.scaling;
  comparison.predictor.max_attention = world.scaling.attention.max;
  comparison.predictor.max_experts = world.scaling.experts.max;
  comparison.predictor = WithAllModes(comparison.predictor);
  return comparison;
}

const SimulationRun& RunOf(const std::vector<SimulationRun>& runs, std::string_view name) {
  return *std::ranges::find(runs, name, &SimulationRun::policy);
}

// The limit holds for every size of copies: a baseline with more GPUs would cost more than it
// could.
TEST(Policies, CopiesOfEverySizeTakeNoMoreThanThePool) {
  Simulated world;
  WholeInputs inputs = Whole(world);
  inputs.pool = 96;
  Demand much = DemandOf(Steadily(40, 600, 300, 200, 1), 600);
  much = Scaled(much, 1e6);
  for (const int gpus : {16, 32, 64}) {
    inputs.how = {gpus};
    EXPECT_EQ(CopiesFor(inputs, much), 96 / gpus);
  }
  for (const int gpus : {16, 64}) {
    inputs.how = {gpus};  // the cheapest size; this policy is not limited to it
    const auto policy = MakeWholeSizes(inputs, {16, 32, 64});
    EXPECT_LE(policy->Begin(much).wish.Gpus(), 96) << gpus;
  }
}

TEST(Policies, AllConserveRequestsTokensAndGpuHours) {
  Simulated world;
  const auto requests = Wave(40, 160, 7200, 14);
  const auto runs = Compare(requests, Compared(world), {});
  ASSERT_TRUE(runs.ok()) << runs.status().ToString();
  ASSERT_EQ(runs->size(), kPolicyNames.size());
  for (const SimulationRun& run : *runs) {
    SCOPED_TRACE(run.policy);
    ExpectConservation(requests, run);
    for (const DecisionRecord& decision : run.decisions) EXPECT_FALSE(decision.why.empty());
  }
  for (const char* name : {"ours", "disagg", "whole"}) {
    const SimulationRun& run = RunOf(*runs, name);
    EXPECT_GE(run.totals.Attainment(), world.scaling.tpot.percentile) << name;
    EXPECT_GT(run.decisions.size(), 2u) << name;
  }
}

// In every run, a policy that attains at least as much as the oracle pays at least as much as the
// oracle's search found. Of these loads our run takes at least 1.2 times that, whatever the seed,
// so it is never the oracle.
TEST(Policies, NoneIsCheaperThanTheOracleAndAttainsAsMuch) {
  Simulated world;
  for (uint64_t load = 0; load < 2; ++load) {
    const auto requests = Wave(30, 120, 3600, MixSeed(TestSeed(), load));
    Comparison comparison = Compared(world);
    comparison.scaling.most_burst = 1;  // as cheap as possible, to come close
    comparison.policies = {"ours", "disagg", "static", "oracle"};
    const auto runs = Compare(requests, comparison, {});
    ASSERT_TRUE(runs.ok()) << runs.status().ToString();
    const SimulationRun& oracle = RunOf(*runs, "oracle");
    ASSERT_GT(oracle.searched_gpu_hours, 0);
    ASSERT_EQ(oracle.totals.gpu_hours, oracle.searched_gpu_hours) << "our run is the oracle";
    for (const SimulationRun& run : *runs) {
      if (run.totals.Attainment() < oracle.totals.Attainment()) continue;
      EXPECT_GE(run.totals.gpu_hours, oracle.searched_gpu_hours) << run.policy << ", load " << load;
    }
  }
}

// Intervals of two hours need one plan for both loads; our policy follows the load.
TEST(Policies, OursStandsForTheOracleWhereItsIntervalsAreTooCoarse) {
  Simulated world;
  const auto requests = Wave(20, 200, 2 * 3600, 3);
  Comparison comparison = Compared(world);
  comparison.scaling.most_burst = 1;
  comparison.oracle.interval_s = 2 * 3600;
  comparison.policies = {"ours", "oracle"};
  const auto runs = Compare(requests, comparison, {});
  ASSERT_TRUE(runs.ok()) << runs.status().ToString();
  const SimulationRun& ours = RunOf(*runs, "ours");
  const SimulationRun& oracle = RunOf(*runs, "oracle");
  EXPECT_GT(oracle.searched_gpu_hours, ours.totals.gpu_hours);
  EXPECT_EQ(oracle.totals.gpu_hours, ours.totals.gpu_hours);
  EXPECT_TRUE(
      oracle.decisions.front().why.starts_with("the schedule of ours; the search found only "))
      << oracle.decisions.front().why;
}

TEST(Policies, KeepTheTargetWhereTermsTakeAFifthMoreThanBelieved) {
  Simulated world;
  const auto requests = Wave(40, 160, 7200, 15);
  Comparison comparison = Compared(world);
  comparison.policies = {"ours"};
  comparison.truth = Perturbed(comparison.belief, {1.2, 1.2, 1.2});
  const auto runs = Compare(requests, comparison, {});
  ASSERT_TRUE(runs.ok()) << runs.status().ToString();
  EXPECT_GE(runs->front().totals.Attainment(), world.scaling.tpot.percentile);
}

Comparison OursByTheMinute(const Simulated& world) {
  Comparison comparison = Compared(world);
  comparison.scaling.interval_seconds = 60;
  comparison.policies = {"ours"};
  return comparison;
}

// Three of fifteen minutes bring two and a half times the load: a start of two minutes is too late.
std::vector<SimulatedRequest> InBursts(double hours) {
  std::mt19937_64 random(16);
  std::vector<SimulatedRequest> requests;
  for (double now = 0; now < hours * 3600;) {
    const double rate = std::fmod(now, 900) > 720 ? 150 : 60;
    now += static_cast<double>(random() % 1000 + 1) / 50 / rate;
    requests.push_back({now, static_cast<int32_t>(50 + random() % 800),
                        static_cast<int32_t>(20 + random() % 300), 10});
  }
  return requests;
}

TEST(Policies, RoomForBurstsKeepsTheTargetThatIsMissedWithoutIt) {
  Simulated world;
  const auto requests = InBursts(6);
  Comparison comparison = OursByTheMinute(world);
  comparison.scaling.most_burst = 1;
  const auto without = Compare(requests, comparison, {});
  comparison.scaling.most_burst = 4;
  const auto with = Compare(requests, comparison, {});
  ASSERT_TRUE(without.ok() && with.ok());
  EXPECT_LT(without->front().totals.Attainment(), world.scaling.tpot.percentile);
  EXPECT_GE(with->front().totals.Attainment(), world.scaling.tpot.percentile);
  // The room covers the burst and not more.
  EXPECT_LT(with->front().totals.gpu_hours, 1.15 * without->front().totals.gpu_hours);
}

// The room alone keeps more than the target. A day, since caution falls slowly.
TEST(Policies, TheErrorBudgetGivesBackWhatKeepsMoreThanTheTarget) {
  Simulated world;
  const auto requests = InBursts(24);
  Comparison comparison = OursByTheMinute(world);
  comparison.scaling.is_budgeted = false;
  const auto without = Compare(requests, comparison, {});
  comparison.scaling.is_budgeted = true;
  const auto with = Compare(requests, comparison, {});
  ASSERT_TRUE(without.ok() && with.ok());
  const Totals& kept = without->front().totals;
  const Totals& spent = with->front().totals;
  EXPECT_GT(kept.Attainment(), 0.97);
  EXPECT_GE(spent.Attainment(), world.scaling.tpot.percentile);
  EXPECT_LT(spent.gpu_hours, kept.gpu_hours);
}

const HoldRecord* HoldOf(const SimulationRun& run, std::string_view reason) {
  const auto found = std::ranges::find(run.holds, reason, &HoldRecord::reason);
  return found == run.holds.end() ? nullptr : &*found;
}

// If no GPUs reach a TPOT, the policy says so, says what they reach, and does not fill the pool.
TEST(Policies, AnImpossibleTargetIsHeldByNameAndTakesNoFullPool) {
  Simulated world;
  world.scaling.tpot.seconds = 0.001;
  const auto requests = Hill(10, 900, 17);
  Comparison comparison = Compared(world);
  comparison.policies = {"ours", "disagg", "static"};
  const auto runs = Compare(requests, comparison, {});
  ASSERT_TRUE(runs.ok()) << runs.status().ToString();
  for (const SimulationRun& run : *runs) {
    SCOPED_TRACE(run.policy);
    const HoldRecord* hold = HoldOf(run, "ImpossibleSLO");
    ASSERT_NE(hold, nullptr);
    EXPECT_EQ(hold->first_s, 0);
    EXPECT_NE(hold->why.find("TPOT "), std::string::npos) << hold->why;
    EXPECT_NE(hold->why.find(" ms at best ("), std::string::npos) << hold->why;
    EXPECT_EQ(hold->why.find("inf"), std::string::npos) << hold->why;
    EXPECT_EQ(run.decisions.front().why, hold->why);
    EXPECT_LT(run.totals.peak_gpus, (world.scaling.attention.max + world.scaling.experts.max) / 2);
    ExpectConservation(requests, run);
  }
  // At the beginning, and at every decision.
  EXPECT_GT(HoldOf(RunOf(*runs, "ours"), "ImpossibleSLO")->count, 50);
  EXPECT_EQ(HoldOf(RunOf(*runs, "static"), "ImpossibleSLO")->count, 1);
}

// A first token that is too late even without load has a reason other than that of the TPOT.
TEST(Policies, AnImpossibleFirstTokenSaysSo) {
  Simulated world;
  world.scaling.ttft = LatencyTarget{0.01, 0.95};
  Comparison comparison = Compared(world);
  comparison.policies = {"ours"};
  const auto runs = Compare(Hill(10, 300, 18), comparison, {});
  ASSERT_TRUE(runs.ok()) << runs.status().ToString();
  const HoldRecord* hold = HoldOf(runs->front(), "ImpossibleSLO");
  ASSERT_NE(hold, nullptr);
  EXPECT_NE(hold->why.find("first token "), std::string::npos) << hold->why;
  EXPECT_EQ(hold->why.find("TPOT"), std::string::npos) << hold->why;
}

// A load that is too large does not make a target impossible.
TEST(Policies, ALoadBeyondTheBoundsIsAtMax) {
  Simulated world;
  world.scaling.attention.max = 1;
  world.scaling.experts.max = 9;
  Comparison comparison = Compared(world);
  comparison.policies = {"ours"};
  const auto runs = Compare(Hill(2000, 120, 19), comparison, {});
  ASSERT_TRUE(runs.ok()) << runs.status().ToString();
  EXPECT_EQ(HoldOf(runs->front(), "ImpossibleSLO"), nullptr);
  ASSERT_NE(HoldOf(runs->front(), "AtMax"), nullptr);
  EXPECT_EQ(HoldOf(runs->front(), "AtMax")->first_s, 0);
}

TEST(Policies, LimitsThatLeaveNothingAreRefused) {
  Simulated world;
  world.scaling.max_gpus = 4;
  Comparison comparison = Compared(world);
  comparison.policies = {"ours"};
  const auto runs = Compare(Hill(10, 60, 1), comparison, {});
  EXPECT_EQ(runs.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(runs.status().message().find("'ours' has no allowed counts"), std::string::npos)
      << runs.status().message();
}

// Every decision either changes something or is counted under its reason.
TEST(Policies, HoldsAreCountedByReason) {
  Simulated world;
  const auto requests = Wave(40, 160, 7200, 14);
  Comparison comparison = Compared(world);
  comparison.policies = {"ours", "whole", "ceil"};
  const auto runs = Compare(requests, comparison, {});
  ASSERT_TRUE(runs.ok()) << runs.status().ToString();
  const SimulationRun& ours = RunOf(*runs, "ours");
  int64_t holds = 0;
  for (const HoldRecord& hold : ours.holds) {
    holds += hold.count;
    EXPECT_FALSE(hold.why.empty()) << hold.reason;
    EXPECT_LE(hold.count, ours.holds.front().count) << "the most frequent comes first";
  }
  const auto changes = static_cast<int64_t>(ours.decisions.size()) - 1;
  EXPECT_EQ(holds + changes,
            static_cast<int64_t>(requests.back().arrival / world.scaling.interval_seconds));
  EXPECT_NE(HoldOf(ours, "ScalingInProgress"), nullptr);
  EXPECT_NE(HoldOf(ours, "Stabilizing"), nullptr);
  EXPECT_TRUE(RunOf(*runs, "ceil").holds.empty()) << "it gives no reasons";
  EXPECT_FALSE(RunOf(*runs, "whole").holds.empty()) << "it decides as ours does";
}

TEST(Policies, NamesOneThatIsUnknown) {
  Simulated world;
  Comparison comparison = Compared(world);
  comparison.policies = {"magic"};
  const auto runs = Compare(Hill(10, 60, 1), comparison, {});
  EXPECT_EQ(runs.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(runs.status().message().find("no policy 'magic'; known: ours, disagg"),
            std::string::npos);
}

TEST(WholePolicies, FollowTheLoad) {
  // Few sequences at once, so that policies that watch queues react.
  Simulated world;
  world.scaling.max_batch_per_attention = 1;
  ShapeBook book(world.setting, world.machinery, world.scaling, 300);
  WholeInputs inputs = Whole(world);
  inputs.book = &book;
  const auto requests = Hill(100, 3600, 11);
  for (const auto make : {MakeWholeByDemand, MakeHpa, MakeSaturation, MakeFloorAndStep}) {
    const auto policy = make(inputs);
    const auto run = Simulate(requests, &book, policy.get(), OptionsOf(world.scaling), {});
    ASSERT_TRUE(run.ok()) << run.status().ToString();
    ExpectConservation(requests, *run);
    const auto [least, most] = std::ranges::minmax(run->gpus, {}, &std::pair<double, int>::second);
    EXPECT_LT(least.second, most.second) << run->policy;
    EXPECT_LE(most.second, inputs.pool * 2) << run->policy;
  }
}

TEST(WholePolicies, CapacityIsTheDemandAtWhichTheStepReachesTheAim) {
  Simulated world;
  const WholeInputs inputs = Whole(world);
  const Demand mix = DemandOf(Steadily(40, 600, 200, 400, 3), 600);
  const double step = inputs.aim * inputs.tpot_seconds;
  const UnitShape& shape = world.book.Whole({16});
  const double capacity = CapacityOf(shape, mix, step);
  ASSERT_GT(capacity, 0);
  const Demand at = Scaled(mix, 0.999 * capacity / mix.requests_per_second);
  EXPECT_LE(SteadyStep(shape, at), step);
  EXPECT_EQ(CopiesFor(inputs, at), 1);
  EXPECT_EQ(CopiesFor(inputs, Scaled(at, 1.01)), 2);
}

TEST(WholePolicies, TheSizeOfFewestGpusIsTaken) {
  Simulated world;
  const WholeInputs inputs = Whole(world);
  const std::vector<Demand> quiet = {DemandOf(Steadily(2, 600, 200, 200, 3), 600)};
  const std::vector<WholeConfiguration> sizes = {{16}, {32}, {64}};
  EXPECT_EQ(CheapestWhole(inputs, quiet, sizes), WholeConfiguration{16});
  WholeInputs strict = inputs;
  strict.tpot_seconds = 0.001;
  EXPECT_FALSE(CheapestWhole(strict, quiet, sizes));
}

TEST(SeparatedPolicies, PodsAreWhole) {
  Simulated world;
  const auto predictor = Predictor::Create(world.setting, {32, 64});
  ASSERT_TRUE(predictor.ok());
  world.scaling.attention.instances_per_pod = world.scaling.experts.instances_per_pod = 8;
  const Wish wish = CheapestSeparated(*predictor, world.scaling,
                                      DemandOf(Steadily(60, 600, 400, 170, 3), 600), 0.9)
                        .wish;
  EXPECT_EQ(wish.how.m % 8, 0);
  EXPECT_EQ(wish.how.n % 8, 0);
}

TEST(Stabilizer, KeepsTheLargestOfItsWindow) {
  Stabilizer stabilizer(100);
  EXPECT_EQ(stabilizer.Largest(0, 5), 5);
  EXPECT_EQ(stabilizer.Largest(50, 3), 5);
  EXPECT_EQ(stabilizer.Largest(99, 4), 5);
  EXPECT_EQ(stabilizer.Largest(101, 1), 4);
  EXPECT_EQ(stabilizer.Largest(300, 1), 1);
}

}  // namespace
}  // namespace janus::controllers
