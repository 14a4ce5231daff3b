// A cost model that is a fifth wrong in one term alone: attainment is kept, and what the model
// predicts is right within a tenth (median) after twenty minutes of traffic.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "controllers/scaling/decide.h"
#include "controllers/simulate/perturbed.h"
#include "controllers/simulate/separated_policies.h"
#include "tests/unit/controllers/simulate/worlds.h"

namespace janus::controllers {
namespace {

constexpr double kLearned_s = 20 * 60;
constexpr double kTraffic_s = 2 * 3600;

// A term of a step, or one of the coefficients that a term consists of.
struct Term {
  const char* name;
  // The setting in which it takes `by` times as long.
  Setting (*stretch)(Setting setting, double by);
  double Corrections::*learned = nullptr;  // of a whole term: the factor that becomes `by`
};

template <class Change>
Setting OnBoth(Setting setting, const Change& change) {
  change(setting.attention);
  change(setting.experts);
  return setting;
}

template <double ExchangeCost::*Of, bool IsRate>
Setting StretchExchange(Setting setting, double by) {
  return OnBoth(std::move(setting), [&](DeviceCosts& device) {
    for (ExchangeCost* cost : {&device.dispatch, &device.combine}) {
      cost->*Of *= IsRate ? 1 / by : by;
    }
  });
}

constexpr std::array kTerms = {
    Term{"Attention",
         [](Setting s, double by) {
           return Perturbed(std::move(s), {by, 1, 1});
         },
         &Corrections::attention},
    Term{"Experts",
         [](Setting s, double by) {
           return Perturbed(std::move(s), {1, by, 1});
         },
         &Corrections::experts},
    Term{"Exchange",
         [](Setting s, double by) {
           return Perturbed(std::move(s), {1, 1, by});
         },
         nullptr},  // not measured apart in two micro-batches: the factor of the step has it
    Term{"ReadingExpertWeights",
         [](Setting s, double by) {
           s.experts.experts.bytes_per_second /= by;
           return s;
         }},
    Term{"ExpertArithmetic",
         [](Setting s, double by) {
           s.experts.experts.operations_per_second /= by;
           return s;
         }},
    Term{"ExpertOverhead",
         [](Setting s, double by) {
           s.experts.experts.fixed_seconds *= by;
           s.experts.experts.idle_expert_seconds *= by;
           return s;
         }},
    Term{"ReadingDenseWeights",
         [](Setting s, double by) {
           s.attention.experts.bytes_per_second /= by;
           return s;
         }},
    Term{"ReadingKeys",
         [](Setting s, double by) {
           s.attention.latent.key_seconds *= by;
           return s;
         }},
    Term{"AttentionArithmetic",
         [](Setting s, double by) {
           s.attention.experts.operations_per_second /= by;
           s.attention.latent.key_head_seconds *= by;
           s.attention.latent.row_head_seconds *= by;
           return s;
         }},
    Term{"AttentionOverhead",
         [](Setting s, double by) {
           s.attention.latent.fixed_seconds *= by;
           s.attention.experts.fixed_seconds *= by;
           return s;
         }},
    Term{"ExchangeBandwidth", StretchExchange<&ExchangeCost::network_bytes_per_second, true>},
    Term{"ExchangeLatency", StretchExchange<&ExchangeCost::network_seconds, false>},
};

// Decides as the operator does, and keeps what was learned.
class Watched final : public SimulatedPolicy {
 public:
  Watched(const Predictor& predictor, const ScalingPolicy& scaling)
      : predictor_(predictor), scaling_(scaling) {}

  std::string_view name() const override { return "watched"; }
  double interval_s() const override { return scaling_.interval_seconds; }
  Beginning Begin(const Demand& first) override {
    return {CheapestSeparated(predictor_, scaling_, first, scaling_.aim).wish};
  }
  Answer Decide(const Observation& seen) override {
    Outcome outcome =
        controllers::Decide(predictor_, scaling_, seen.world, std::exchange(memory_, {}));
    memory_ = std::move(outcome.memory);
    const Decision& decision = outcome.decision;
    if (seen.world.time_seconds >= kLearned_s) {
      error = std::max(error, decision.error.corrected_median);
      uncorrected_error = std::max(uncorrected_error, decision.error.uncorrected_median);
      fewest_samples = std::min(fewest_samples, decision.error.count);
      learned = decision.corrections;
    }
    if (decision.verb == Verb::kHold) return {std::nullopt, decision.text};
    return {Wish::Separate(decision.target.how), decision.text};
  }

  // Since kLearned_s: the largest medians, with what was learned and without it.
  double error = 0;
  double uncorrected_error = 0;
  int fewest_samples = 1000;
  Corrections learned;

 private:
  const Predictor& predictor_;
  const ScalingPolicy& scaling_;
  Memory memory_;
};

class WrongModel : public testing::TestWithParam<std::tuple<size_t, double>> {
 protected:
  static const Predictor& Believed() {
    static const Predictor predictor = [] {
      const ScalingPolicy scaling = Targets();
      PredictorOptions options;
      options.max_attention = scaling.attention.max;
      options.max_experts = scaling.experts.max;
      return *Predictor::Create(DeepSeekV2(), options);
    }();
    return predictor;
  }
};

TEST_P(WrongModel, KeepsTheTargetAndLearnsTheTerm) {
  const auto& [index, factor] = GetParam();
  const Term& term = kTerms[index];
  Simulated world;
  const StepLoad load = {200, 700, 300, 400};
  const Configuration how = Separated(4, 12).how;
  const Setting stretched = term.stretch(world.setting, factor);
  EXPECT_EQ(TimesOfStep(stretched, how, load).step > TimesOfStep(world.setting, how, load).step,
            factor > 1);
  ShapeBook truth(stretched, world.machinery, world.scaling, 300);
  const auto requests = Wave(40, 160, kTraffic_s, 23);
  Watched policy(Believed(), world.scaling);
  const auto run = Simulate(requests, &truth, &policy, OptionsOf(world.scaling), {});
  ASSERT_TRUE(run.ok()) << run.status().ToString();
  EXPECT_GE(run->totals.Attainment(), world.scaling.tpot.percentile);
  EXPECT_GT(run->decisions.size(), 2u) << "the counts followed the load";
  EXPECT_LT(policy.error, 0.1);
  EXPECT_LT(policy.error, policy.uncorrected_error);
  EXPECT_GE(policy.fewest_samples, 20);
  if (term.learned != nullptr) {
    EXPECT_NEAR(policy.learned.*term.learned, factor, 0.1 * factor);
  }
}

std::string NameOfCase(const testing::TestParamInfo<WrongModel::ParamType>& of) {
  const auto& [index, factor] = of.param;
  return std::string(kTerms[index].name) + (factor > 1 ? "TakesMore" : "TakesLess");
}

INSTANTIATE_TEST_SUITE_P(EachTerm, WrongModel,
                         testing::Combine(testing::Range<size_t>(0, kTerms.size()),
                                          testing::Values(0.8, 1.2)),
                         NameOfCase);

}  // namespace
}  // namespace janus::controllers
