#include "controllers/plan/prefill.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "controllers/plan/traffic.h"
#include "tests/support/random.h"
#include "tests/unit/controllers/plan/settings.h"

namespace janus::controllers {
namespace {

TEST(Step, WithoutPromptsItIsTheTimePerOutputToken) {
  Setting setting = On("dbrx", "H100");
  setting.context = 700;
  EXPECT_EQ(TimesOfStep(setting, Make(4, 8), {256, 700, 0, 0}).step,
            TimePerOutputToken(setting, Make(4, 8), 256));
}

TEST(Step, PromptsAndKeysOnlyEverAddTime) {
  for (const char* model : {"deepseek-v3", "dbrx"}) {
    const Setting setting = On(model, "H200");
    for (const int b : {1, 2}) {
      double before = 0;
      for (const double prompts : {0., 1., 64., 512., 4096., 32768.}) {
        const double step = TimesOfStep(setting, Make(4, 16, b), {256, 1024, prompts, 512}).step;
        EXPECT_GE(step, before) << model << ", " << prompts << " prompt rows, b " << b;
        before = step;
      }
      const auto attention = [&](const StepLoad& load) {
        return TimesOfStep(setting, Make(4, 16, b), load).attention;
      };
      EXPECT_GT(attention({256, 1024, 4096, 8192}), attention({256, 1024, 4096, 512}));
      EXPECT_GT(attention({256, 8192, 512, 512}), attention({256, 1024, 512, 512}));
    }
  }
}

// In large rounds of prompts every expert is limited by its rows: twice the rows take twice the
// time.
TEST(Step, LargePromptsAreBoundByTheirRows) {
  const Setting setting = On("deepseek-v3", "H200");
  const double once = TimesOfStep(setting, Make(8, 16), {0, 1, 65536, 1024}).experts;
  EXPECT_NEAR(TimesOfStep(setting, Make(8, 16), {0, 1, 131072, 1024}).experts / once, 2, 0.1);
}

// One prompt position over its keys: 2 x (192 + 128) operations per head and key of a latent model.
TEST(Step, KeysOfAPromptCostTheirOperations) {
  const Setting setting = On("deepseek-v3", "H200");
  const Configuration how = Make(1, 16);
  const double more = TimesOfStep(setting, how, {0, 1, 1000, 3000}).attention -
                      TimesOfStep(setting, how, {0, 1, 1000, 1000}).attention;
  const double operations = 1000. * 2000 * 128 * 640 * 61;
  const double peak = setting.attention.hardware.bf16_operations_per_second;
  EXPECT_GT(more, operations / peak);
  EXPECT_LT(more, operations / peak * 2.5) << "above 40 % of the bf16 peak";
}

PromptLoad Prompts(double requests_per_second) {
  PromptLoad load;
  load.requests_per_second = requests_per_second;
  load.prompt_tokens = load.prompt_tokens_at_percentile = 1000;
  load.servers = 1;
  load.rows_per_second_of_one = 10000;
  load.step_seconds = 0.05;
  return load;
}

// One server and exponential lengths are an M/M/1 queue: service 0.1 s, utilisation one half, the
// wait's 95th percentile ln(0.5 / 0.05) / (10 - 5).
TEST(TimeToFirstToken, OfOneServerIsTheQueueOfTheTextbook) {
  EXPECT_DOUBLE_EQ(PrefillUtilisation(Prompts(5)), 0.5);
  EXPECT_NEAR(TimeToFirstToken(Prompts(5), 0.95), std::log(10) / 5 + 0.1 + 0.05, 1e-9);
}

TEST(TimeToFirstToken, WithoutLoadIsThePromptAndAStep) {
  EXPECT_DOUBLE_EQ(TimeToFirstToken(Prompts(0), 0.95), 0.1 + 0.05);
}

TEST(TimeToFirstToken, GrowsWithLoadAndVariationAndFallsWithServers) {
  double before = 0;
  for (const double rate : {0., 1., 5., 8., 9.5, 9.9}) {
    const double now = TimeToFirstToken(Prompts(rate), 0.95);
    EXPECT_GE(now, before) << rate;
    before = now;
  }
  PromptLoad uneven = Prompts(8);
  uneven.prompt_squared_variation = 4;
  EXPECT_GT(TimeToFirstToken(uneven, 0.95), TimeToFirstToken(Prompts(8), 0.95));
  PromptLoad wide = Prompts(32);
  wide.servers = 4;
  EXPECT_LT(TimeToFirstToken(wide, 0.95), TimeToFirstToken(Prompts(8), 0.95))
      << "four servers at the same utilisation wait less";
}

// The share of requests with a later first token, summed over the distribution as in prefill.h.
double ShareOfLater(const PromptLoad& load, std::span<const double> law, double seconds) {
  const double utilisation = PrefillUtilisation(load);
  const double mean = load.prompt_tokens / load.rows_per_second_of_one;
  const double waits = std::pow(utilisation, std::sqrt(2 * (load.servers + 1)) - 1);
  const double wait = mean * (1 + SquaredVariation(law)) / (2 * load.servers * (1 - utilisation));
  double later = 0;
  for (const double length : law) {
    const double left = seconds - load.step_seconds - length * mean;
    later += left < 0 ? 1 : waits * std::exp(-left / wait);
  }
  return later / static_cast<double>(law.size());
}

// With a distribution of lengths, wait and prompt together are one M/M/1 sojourn: exponential with
// rate mu - lambda.
TEST(TimeToFirstToken, OfExponentialPromptsIsTheSojournOfTheTextbook) {
  const std::span<const double> law = PromptLawOf({});
  for (const double percentile : {0.5, 0.9, 0.95, 0.99}) {
    const double exact = std::log(1 / (1 - percentile)) / (10 - 5) + 0.05;
    EXPECT_NEAR(TimeToFirstToken(Prompts(5), law, percentile), exact, 0.01 * exact) << percentile;
  }
  // The sum of the two 95th percentiles exceeds the 95th percentile of the sum.
  PromptLoad apart = Prompts(5);
  apart.prompt_tokens_at_percentile = std::log(20) * 1000;
  EXPECT_GT(TimeToFirstToken(apart, 0.95), 1.2 * TimeToFirstToken(Prompts(5), law, 0.95));
}

// Without other load a request waits only for its own prompt: at the 95th percentile 3 times the
// mean.
TEST(TimeToFirstToken, WithoutLoadIsThePromptAtThePercentile) {
  const double seconds = TimeToFirstToken(Prompts(0), PromptLawOf({}), 0.95);
  EXPECT_NEAR(seconds, std::log(20) * 0.1 + 0.05, 0.003);
}

TEST(TimeToFirstToken, OfPromptsOfOneLengthIsTheWaitAndThatLength) {
  PromptLoad alike = Prompts(8);
  alike.prompt_squared_variation = 0;
  const std::vector<double> law = {1};
  EXPECT_NEAR(TimeToFirstToken(alike, law, 0.95), TimeToFirstToken(alike, 0.95), 1e-6);
  const double median = TimeToFirstToken(alike, law, 0.5);
  EXPECT_NEAR(ShareOfLater(alike, law, median), 0.5, 1e-6);
}

// Checked with the sum over the distribution: before that time too many first tokens come later,
// after it not.
TEST(TimeToFirstToken, IsWhereTheShareOfLaterFallsToWhatMay) {
  std::mt19937 random(TestSeed());
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int i = 0; i < 500; ++i) {
    PromptLoad load = Prompts(std::exp2(6 * uniform(random) - 4));
    load.servers = 1 + static_cast<double>(random() % 64);
    load.rows_per_second_of_one = std::exp2(10 + 8 * uniform(random));
    std::vector<double> lengths(1 + random() % 300);
    for (double& length : lengths) length = std::exp(3 * uniform(random));
    const std::vector<double> law = LawOfLengths(lengths);
    const double percentile = 0.5 + 0.499 * uniform(random);
    const double seconds = TimeToFirstToken(load, law, percentile);
    if (std::isinf(seconds)) {
      EXPECT_GE(PrefillUtilisation(load), 1);
      continue;
    }
    EXPECT_LE(ShareOfLater(load, law, seconds * (1 + 1e-9)), (1 - percentile) * (1 + 1e-9));
    EXPECT_GE(ShareOfLater(load, law, seconds * (1 - 1e-5)), (1 - percentile) * (1 - 1e-9));
  }
}

TEST(TimeToFirstToken, AQueueThatGrowsWithoutEndHasNone) {
  EXPECT_TRUE(std::isinf(TimeToFirstToken(Prompts(10), 0.95)));
  PromptLoad none = Prompts(1);
  none.rows_per_second_of_one = 0;
  EXPECT_TRUE(std::isinf(TimeToFirstToken(none, 0.95)));
  EXPECT_TRUE(std::isinf(TimeToFirstToken(none, PromptLawOf({}), 0.95)));
  EXPECT_TRUE(std::isinf(TimeToFirstToken(Prompts(10), PromptLawOf({}), 0.95)));
}

}  // namespace
}  // namespace janus::controllers
