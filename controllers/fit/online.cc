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

namespace {

double Growth(uint64_t before, uint64_t now) {
  return static_cast<double>(now) - static_cast<double>(before);
}

// The same instance at an earlier look; null: there is none that it can be compared with.
const InstanceStatistics* EarlierOf(const InstanceStatistics& now, const Statistics& before) {
  const auto old = std::ranges::find_if(before.instances, [&](const InstanceStatistics& then) {
    return then.role == now.role && then.rank == now.rank;
  });
  if (old == before.instances.end()) return nullptr;
  // Counters that fell: the instance restarted and counts from zero.
  if (now.steps < old->steps || now.rounds < old->rounds) return nullptr;
  if (now.load.has_value() != old->load.has_value()) return nullptr;
  return now.load && now.load->process != old->load->process ? nullptr : &*old;
}

// Kernels of an expert instance between two looks.
double ExpertSeconds(const InstanceStatistics& old, const InstanceStatistics& now) {
  if (!now.load) return now.compute_seconds - old.compute_seconds;
  const auto kernels = [](const LoadCounts& load) {
    return load.gate_seconds + load.aebs_seconds + load.expert_seconds;
  };
  return kernels(*now.load) - kernels(*old.load);
}

// One attention instance between two looks, by step.
struct AttentionSample {
  double steps = 0;
  double decode_rows = 0;
  double decode_keys = 0;  // as the rows; of workers that do not count them, of those held now
  double prompt_rows = 0;
  double prompt_keys = 0;
  double attention = 0;
  double exchange = 0;  // with what the experts compute
  double step = 0;
};

AttentionSample SampleOf(const InstanceStatistics& old, const InstanceStatistics& now) {
  AttentionSample sample;
  const double steps = Growth(old.steps, now.steps);
  sample.steps = steps;
  if (now.load) {
    const LoadCounts& before = *old.load;
    const LoadCounts& after = *now.load;
    sample.decode_rows = Growth(before.decode_rows, after.decode_rows) / steps;
    sample.decode_keys = Growth(before.decode_keys, after.decode_keys) / steps;
    sample.prompt_rows = Growth(before.prompt_rows, after.prompt_rows) / steps;
    sample.prompt_keys = Growth(before.prompt_keys, after.prompt_keys) / steps;
    sample.attention = (after.attention_seconds - before.attention_seconds) / steps;
    sample.exchange = (after.exchange_seconds - before.exchange_seconds) / steps;
    sample.step = (after.step_seconds - before.step_seconds) / steps;
    return sample;
  }
  const double rows = Growth(old.rows, now.rows);
  const double decoded = std::min(Growth(old.tokens, now.tokens), rows);
  sample.decode_rows = decoded / steps;
  sample.prompt_rows = (rows - decoded) / steps;
  if (now.running > 0) {
    sample.decode_keys = sample.decode_rows * static_cast<double>(now.kv_tokens_used) /
                         static_cast<double>(now.running);
  }
  sample.attention = (now.compute_seconds - old.compute_seconds) / steps;
  sample.exchange = (now.wait_seconds - old.wait_seconds) / steps;
  sample.step = now.step_seconds_median;
  return sample;
}

double MedianOf(const std::vector<AttentionSample>& samples, double AttentionSample::*of) {
  std::vector<double> values;
  for (const AttentionSample& sample : samples) values.push_back(sample.*of);
  return Median(std::move(values));
}

}  // namespace

std::optional<StepSample> SampleBetween(const Statistics& before, const Statistics& after,
                                        double time_seconds, uint64_t warm_up_steps,
                                        int micro_batches, double prompt_keys) {
  if (before.epoch != after.epoch) return std::nullopt;
  std::vector<AttentionSample> attention;
  std::vector<double> expert_seconds;
  double idle = 0;
  double left_out = 0;
  bool is_counted = true;
  for (const InstanceStatistics& now : after.instances) {
    const bool is_attention = now.role == Role::kAttention;
    const InstanceStatistics* const old = EarlierOf(now, before);
    if (old == nullptr || now.steps < warm_up_steps) {
      left_out += is_attention ? 1 : 0;
      continue;
    }
    if (!is_attention) {
      if (now.rounds > old->rounds) expert_seconds.push_back(ExpertSeconds(*old, now));
      continue;
    }
    if (now.steps == old->steps) {
      idle += 1;
      continue;
    }
    attention.push_back(SampleOf(*old, now));
    is_counted = is_counted && now.load.has_value();
  }
  if (attention.empty() || expert_seconds.empty()) return std::nullopt;
  StepSample sample;
  sample.time_seconds = time_seconds;
  sample.steps = MedianOf(attention, &AttentionSample::steps);
  double decode_keys = 0;
  double keys_of_prompts = 0;
  for (const AttentionSample& one : attention) {
    sample.load.decode_rows += one.decode_rows;
    sample.load.prompt_rows += one.prompt_rows;
    decode_keys += one.decode_keys;
    keys_of_prompts += one.prompt_keys;
  }
  if (decode_keys > 0) sample.load.context = decode_keys / sample.load.decode_rows;
  sample.load.prompt_keys = prompt_keys;
  if (is_counted && sample.load.prompt_rows > 0) {
    sample.load.prompt_keys = keys_of_prompts / sample.load.prompt_rows;
  }
  // Those left out compute their share of the rows, too.
  const double measured = static_cast<double>(attention.size()) + idle;
  sample.load.decode_rows *= (measured + left_out) / measured;
  sample.load.prompt_rows *= (measured + left_out) / measured;
  sample.seconds.attention = MedianOf(attention, &AttentionSample::attention);
  sample.seconds.experts = Median(expert_seconds) / sample.steps;
  if (micro_batches == 1) {
    sample.seconds.exchange =
        std::max(MedianOf(attention, &AttentionSample::exchange) - sample.seconds.experts, 0.0);
  }
  sample.seconds.step = MedianOf(attention, &AttentionSample::step);
  return sample;
}

}  // namespace janus::controllers
