#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "controllers/scaling/decide.h"
#include "tests/unit/controllers/plan/settings.h"

namespace janus::controllers {
namespace {

// A power of two, so that the divided times have the same digits.
constexpr int kFaster = 8;

// A service whose clock runs `faster` times as fast as a real one: all times are divided by it.
struct Service {
  explicit Service(int faster, ForecastKind forecast) : faster(faster) {
    options.max_attention = options.max_experts = 64;
    options.times_faster = faster;
    policy.tpot.seconds = 0.1 / faster;
    policy.attention.max = policy.experts.max = 64;
    for (RolePolicy* role : {&policy.attention, &policy.experts}) {
      role->down.stabilization_seconds = 300.0 / faster;
      role->down.rules.clear();  // whole seconds, which eight does not divide
    }
    policy.forecast.kind = forecast;
    for (double* seconds : {&policy.interval_seconds, &policy.pending_timeout_seconds,
                            &policy.backoff_seconds, &policy.start_seconds, &policy.warm_up_seconds,
                            &policy.recovery_seconds, &policy.online.half_life_seconds}) {
      *seconds /= faster;
    }
    policy.times_faster = faster;
    predictor = *Predictor::Create(On("deepseek-v3", "H200"), options);
  }

  Decision At(int minute, double requests_per_minute, double missed, double waiting) {
    World world;
    world.time_seconds = 60.0 * minute / faster;
    const double rate = requests_per_minute / 60 * faster;
    world.arrivals = {{60.0 / faster, rate, 800 * rate}};
    world.lengths.output_tokens = 400;
    world.current.m = world.attention.ready = at.m;
    world.current.n = world.experts.ready = at.n;
    world.now.waiting = waiting;
    world.now.waiting_prompt_tokens = 800 * waiting;
    world.ended = {requests_per_minute, requests_per_minute * (1 - missed)};
    Outcome out = Decide(*predictor, policy, world, std::move(memory));
    memory = std::move(out.memory);
    if (out.decision.verb != Verb::kHold) {
      at = {out.decision.target.how.m, out.decision.target.how.n};
    }
    return out.decision;
  }

  int faster;
  PredictorOptions options;
  std::optional<Predictor> predictor;
  ScalingPolicy policy;
  Counts at = {8, 16};
  Memory memory;
};

class Clock : public testing::TestWithParam<ForecastKind> {};

// Level, bursts, forecast, error budget, the time in which lengths are learned and the one that a
// request may wait have constants of their own. One that is not on the clock changes a decision, or
// what is learned.
TEST_P(Clock, DecisionsOfAFasterClockAreTheSame) {
  Service real(1, GetParam()), fast(kFaster, GetParam());
  int actions = 0;
  for (int minute = 1; minute <= 180; ++minute) {
    const double swell = 2400 * (1 + 0.6 * std::sin(minute / 25.0));
    const double load = minute % 10 == 0 ? 1.7 * swell : swell;
    const double missed = minute % 30 < 3 ? 0.3 : 0.01;
    // Requests of half a second, which are more than come by chance.
    const double waiting = minute % 30 == 20 ? load / 120 : 0;
    const Decision one = real.At(minute, load, missed, waiting);
    const Decision other = fast.At(minute, load, missed, waiting);
    ASSERT_EQ(one.verb, other.verb) << minute << "\n" << one.text << "\n" << other.text;
    ASSERT_EQ(one.reason, other.reason) << minute << "\n" << one.text << "\n" << other.text;
    ASSERT_EQ(one.target.how.m, other.target.how.m) << minute;
    ASSERT_EQ(one.target.how.n, other.target.how.n) << minute;
    ASSERT_NEAR(real.memory.budget.caution, fast.memory.budget.caution, 1e-9) << minute;
    ASSERT_EQ(real.memory.bursts.weights.size(), fast.memory.bursts.weights.size()) << minute;
    for (size_t i = 0; i < real.memory.bursts.weights.size(); ++i) {
      ASSERT_NEAR(real.memory.bursts.weights[i], fast.memory.bursts.weights[i], 1e-6) << minute;
    }
    actions += one.verb != Verb::kHold ? 1 : 0;
  }
  EXPECT_GE(actions, 6) << "the load must have made decisions";
  EXPECT_FALSE(real.memory.bursts.weights.empty());
}

INSTANTIATE_TEST_SUITE_P(Forecasts, Clock,
                         testing::Values(ForecastKind::kNone, ForecastKind::kEwma,
                                         ForecastKind::kSeasonal));

}  // namespace
}  // namespace janus::controllers
