#pragma once

// Shared by tests of the simulator: a small service, a load, a policy that follows a list.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "controllers/plan/model_shape.h"
#include "controllers/simulate/simulate.h"

namespace janus::controllers {

inline Setting DeepSeekV2() {
  Setting setting;
  setting.model = *FindModel("deepseek-v2");
  setting.attention = *CostsOf(*FindHardware("H100"), setting.model.bytes_per_weight);
  setting.experts = setting.attention;
  setting.context = 500;
  return setting;
}

inline Wish Separated(int m, int n) {
  Wish wish;
  wish.how.m = m;
  wish.how.n = n;
  return wish;
}

inline Wish WholeInstances(int units, int gpus) {
  return Wish::Copies(units, {gpus});
}

inline ScalingPolicy Targets() {
  ScalingPolicy policy;
  policy.tpot.seconds = 0.1;
  policy.ttft = LatencyTarget{10, 0.95};
  policy.experts.max = 64;
  policy.attention.max = 32;
  policy.forecast.kind = ForecastKind::kEwma;
  return policy;
}

inline SimulationOptions OptionsOf(const ScalingPolicy& scaling) {
  SimulationOptions options;
  options.scaling = scaling;
  options.level = {scaling.tpot.seconds, scaling.ttft ? scaling.ttft->seconds : 0};
  return options;
}

// A load that rises to its middle and falls again.
inline std::vector<SimulatedRequest> Hill(double most_rate, double seconds, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<SimulatedRequest> requests;
  for (double now = 0; now < seconds;) {
    const double rate = most_rate * (0.15 + 0.85 * std::sin(3.1416 * now / seconds));
    now += static_cast<double>(random() % 1000 + 1) / 500 / rate;
    requests.push_back({now, static_cast<int32_t>(50 + random() % 800),
                        static_cast<int32_t>(20 + random() % 300), 1});
  }
  return requests;
}

// A load that rises from `low` to `high` and falls again, once; in groups of ten.
inline std::vector<SimulatedRequest> Wave(double low, double high, double seconds, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<SimulatedRequest> requests;
  for (double now = 0; now < seconds;) {
    const double rate = low + (high - low) * (1 - std::cos(6.2832 * now / seconds)) / 2;
    now += static_cast<double>(random() % 1000 + 1) / 50 / rate;
    requests.push_back({now, static_cast<int32_t>(50 + random() % 800),
                        static_cast<int32_t>(20 + random() % 300), 10});
  }
  return requests;
}

// Poisson arrivals of one kind of request.
inline std::vector<SimulatedRequest> Steadily(double rate, double seconds, int32_t input,
                                              int32_t output, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<SimulatedRequest> requests;
  for (double now = 0;;) {
    now -= std::log1p(-static_cast<double>(random() >> 11) * 0x1p-53) / rate;
    if (now >= seconds) return requests;
    requests.push_back({now, input, output, 1});
  }
}

// Follows a list of wishes, each for some seconds; records what it saw.
class Scripted final : public SimulatedPolicy {
 public:
  Scripted(std::vector<Wish> wishes, double every_s)
      : wishes_(std::move(wishes)), every_s_(every_s) {}
  std::string_view name() const override { return "scripted"; }
  double interval_s() const override { return every_s_; }
  Beginning Begin(const Demand& /*first*/) override { return {wishes_[0]}; }
  Answer Decide(const Observation& seen) override {
    looks.push_back(seen);
    at_ = std::min(at_ + 1, wishes_.size() - 1);
    return {wishes_[at_], "scripted", {}};
  }

  std::vector<Observation> looks;

 private:
  const std::vector<Wish> wishes_;
  const double every_s_;
  size_t at_ = 0;
};

// A model that assumes the true times.
struct Simulated {
  Setting setting = DeepSeekV2();
  ScalingPolicy scaling = Targets();
  Machinery machinery;
  ShapeBook book{setting, machinery, scaling, 300};

  SimulationRun Run(const std::vector<SimulatedRequest>& requests, SimulatedPolicy& policy) {
    SimulationOptions options = OptionsOf(scaling);
    options.machinery = machinery;
    auto run = Simulate(requests, &book, &policy, options, {});
    EXPECT_TRUE(run.ok()) << run.status().ToString();
    return std::move(run).value();
  }
  SimulationRun Always(const std::vector<SimulatedRequest>& requests, const Wish& wish) {
    Scripted policy({wish}, 3600);
    return Run(requests, policy);
  }
};

// Checks that every request ends once, that every requested token is generated, and that GPU-hours
// are the integral of the GPUs over time.
inline void ExpectConservation(const std::vector<SimulatedRequest>& requests,
                               const SimulationRun& run) {
  int64_t count = 0, input = 0, output = 0;
  for (const SimulatedRequest& request : requests) {
    count += request.weight;
    input += request.weight * int64_t{request.input};
    output += request.weight * int64_t{request.output};
  }
  const Totals& t = run.totals;
  EXPECT_EQ(t.requests, count);
  EXPECT_EQ(t.finished + t.refused, t.requests);
  EXPECT_LE(t.attained, t.finished);
  if (t.refused == 0) {
    EXPECT_EQ(t.input_tokens, input);
    EXPECT_EQ(t.output_tokens, output);
  }
  int64_t arrived = 0, attained = 0;
  double window_seconds = 0;
  for (const WindowRecord& window : run.windows) {
    arrived += window.arrived;
    attained += window.attained;
    window_seconds += window.gpu_seconds;
  }
  EXPECT_EQ(arrived, t.requests);
  EXPECT_EQ(attained, t.attained);
  EXPECT_NEAR(window_seconds / 3600, t.gpu_hours, 1e-6 * t.gpu_hours + 1e-9);
}

}  // namespace janus::controllers
