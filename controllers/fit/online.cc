#include "controllers/fit/online.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace janus::controllers {
namespace {

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

double Percentile(std::vector<double> values, double share) {
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, at);
  return *at;
}

struct Weighted {
  double value = 0;
  double weight = 0;
};

double WeightedMedian(std::vector<Weighted> values) {
  std::ranges::sort(values, {}, &Weighted::value);
  double half = 0;
  for (const Weighted& v : values) half += v.weight / 2;
  double sum = 0;
  for (const Weighted& v : values) {
    sum += v.weight;
    if (sum >= half) return v.value;
  }
  return values.back().value;
}

// Huber's location. It starts at the median, which outliers hardly move, and then averages with
// weights that fall for values farther than `width` from the centre.
double Centre(const std::vector<Weighted>& values, double width) {
  double centre = WeightedMedian(values);
  for (int i = 0; i < 3; ++i) {
    double sum = 0;
    double weights = 0;
    for (const Weighted& v : values) {
      const double far = std::abs(v.value - centre);
      const double weight = v.weight * (far > width ? width / far : 1);
      sum += weight * v.value;
      weights += weight;
    }
    centre = sum / weights;
  }
  return centre;
}

bool IsPositive(double value) {
  return std::isfinite(value) && value > 0;
}

template <class T>
void PushBounded(std::vector<T>& values, T value, size_t most) {
  if (values.size() >= most) values.erase(values.begin());
  values.push_back(std::move(value));
}

double FactorOf(const std::vector<OnlineState::Ratio>& ratios, double now,
                const OnlineOptions& options) {
  if (ratios.empty()) return 1;
  std::vector<Weighted> values = {{0, options.prior_samples}};
  for (const OnlineState::Ratio& ratio : ratios) {
    values.push_back(
        {ratio.log_ratio, std::exp2((ratio.time_seconds - now) / options.half_life_seconds)});
  }
  return std::clamp(std::exp(Centre(values, options.robust_above)), options.lowest,
                    options.highest);
}

}  // namespace

OnlineState Learn(OnlineState state, const StepSample& sample, const StepTimes& predicted,
                  double composed_step, const OnlineOptions& options) {
  const StepTimes& seconds = sample.seconds;
  if (!sample.is_warm || !(sample.steps >= options.fewest_steps) ||
      !std::isfinite(sample.time_seconds) || sample.time_seconds <= state.last_time_seconds) {
    return state;
  }
  for (const double value : {seconds.attention, seconds.experts, seconds.exchange}) {
    if (!std::isfinite(value) || value < 0) return state;
  }
  if (!IsPositive(seconds.step) || !IsPositive(predicted.step) || !IsPositive(composed_step)) {
    return state;
  }
  state.last_time_seconds = sample.time_seconds;
  const size_t most = static_cast<size_t>(std::max(options.samples, 1));
  PushBounded(state.judged,
              {std::abs(composed_step * state.corrections.step / seconds.step - 1),
               std::abs(predicted.step / seconds.step - 1)},
              most);
  const std::array<std::pair<double, double>, 4> terms = {{{seconds.attention, predicted.attention},
                                                           {seconds.experts, predicted.experts},
                                                           {seconds.exchange, predicted.exchange},
                                                           {seconds.step, composed_step}}};
  const std::array<double*, 4> factors = {&state.corrections.attention, &state.corrections.experts,
                                          &state.corrections.exchange, &state.corrections.step};
  for (size_t i = 0; i < terms.size(); ++i) {
    const auto& [measured, expected] = terms[i];
    if (measured == 0 || !IsPositive(expected)) continue;
    PushBounded(state.ratios[i], {sample.time_seconds, std::log(measured / expected)}, most);
    *factors[i] = FactorOf(state.ratios[i], sample.time_seconds, options);
  }
  return state;
}

OnlineError ErrorOf(const OnlineState& state) {
  OnlineError error;
  error.count = static_cast<int>(state.judged.size());
  if (error.count == 0) return error;
  std::vector<double> corrected;
  std::vector<double> uncorrected;
  for (const OnlineState::Judged& judged : state.judged) {
    corrected.push_back(judged.corrected);
    uncorrected.push_back(judged.uncorrected);
  }
  error.corrected_median = Median(corrected);
  error.corrected_p90 = Percentile(std::move(corrected), 0.9);
  error.uncorrected_median = Median(uncorrected);
  error.uncorrected_p90 = Percentile(std::move(uncorrected), 0.9);
  return error;
}

std::optional<StepSample> SampleBetween(const Statistics& before, const Statistics& after,
                                        double time_seconds, uint64_t warm_up_steps,
                                        int micro_batches, double prompt_keys) {
  if (before.epoch != after.epoch) return std::nullopt;
  std::vector<double> attention;
  std::vector<double> waits;
  std::vector<double> steps_seconds;
  std::vector<double> steps;
  std::vector<double> expert_seconds;
  StepSample sample;
  double keys = 0;
  double running = 0;
  for (const InstanceStatistics& now : after.instances) {
    const auto old = std::ranges::find_if(before.instances, [&](const InstanceStatistics& then) {
      return then.role == now.role && then.rank == now.rank;
    });
    // Counters that fell: the instance restarted and counts from zero.
    if (old == before.instances.end() || now.steps < old->steps || now.rounds < old->rounds ||
        now.steps < warm_up_steps) {
      continue;
    }
    if (now.role == Role::kExperts) {
      if (now.rounds > old->rounds) {
        expert_seconds.push_back(now.compute_seconds - old->compute_seconds);
      }
      continue;
    }
    if (now.steps == old->steps) continue;
    const auto count = static_cast<double>(now.steps - old->steps);
    steps.push_back(count);
    attention.push_back((now.compute_seconds - old->compute_seconds) / count);
    waits.push_back((now.wait_seconds - old->wait_seconds) / count);
    steps_seconds.push_back(now.step_seconds_median);
    const auto rows = static_cast<double>(now.rows - old->rows);
    const double decoded = std::min(static_cast<double>(now.tokens - old->tokens), rows);
    sample.load.decode_rows += decoded / count;
    sample.load.prompt_rows += (rows - decoded) / count;
    keys += static_cast<double>(now.kv_tokens_used);
    running += static_cast<double>(now.running);
  }
  if (steps.empty() || expert_seconds.empty()) return std::nullopt;
  sample.time_seconds = time_seconds;
  sample.steps = Median(steps);
  sample.load.context = running > 0 ? keys / running : 1;
  sample.load.prompt_keys = prompt_keys;
  sample.seconds.attention = Median(attention);
  sample.seconds.experts = Median(expert_seconds) / sample.steps;
  if (micro_batches == 1) {
    sample.seconds.exchange = std::max(Median(waits) - sample.seconds.experts, 0.0);
  }
  sample.seconds.step = Median(steps_seconds);
  return sample;
}

}  // namespace janus::controllers
