#include "controllers/plan/prefill.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "controllers/halving.h"
#include "controllers/plan/traffic.h"

namespace janus::controllers {

double PrefillUtilisation(const PromptLoad& load) {
  const double offered = load.requests_per_second * load.prompt_tokens;
  if (offered <= 0) return 0;
  const double capacity = load.servers * load.rows_per_second_of_one;
  return capacity > 0 ? offered / capacity : std::numeric_limits<double>::infinity();
}

namespace {

// Sakasegawa's queue: a request waits with this probability, on average for `seconds`. The tail is
// exponential.
struct Wait {
  double probability = 0;
  double seconds = 0;
};

Wait WaitOf(const PromptLoad& load, double squared_variation) {
  const double utilisation = PrefillUtilisation(load);
  if (utilisation <= 0) return {};
  const double service = load.prompt_tokens / load.rows_per_second_of_one;
  return {std::pow(utilisation, std::sqrt(2 * (load.servers + 1)) - 1),
          service * (1 + squared_variation) / (2 * load.servers * (1 - utilisation))};
}

}  // namespace

double TimeToFirstToken(const PromptLoad& load, double percentile) {
  const double utilisation = PrefillUtilisation(load);
  if (utilisation >= 1) return std::numeric_limits<double>::infinity();
  const double own = load.rows_per_second_of_one > 0
                         ? load.prompt_tokens_at_percentile / load.rows_per_second_of_one
                         : 0;
  const Wait wait = WaitOf(load, load.prompt_squared_variation);
  const double waited =
      wait.probability > 0
          ? wait.seconds * std::max(std::log(wait.probability / (1 - percentile)), 0.0)
          : 0;
  return waited + own + load.step_seconds;
}

namespace {

// P(later than t), for many t. For lengths up to x, the sum of exp(-(x - L) / w) equals the sum of
// exp((L - K) / w), with K the longest of them, times exp((K - x) / w). No term exceeds 1.
class LaterShare {
 public:
  LaterShare(const PromptLoad& load, std::span<const double> law)
      : law_(law),
        mean_(load.prompt_tokens / load.rows_per_second_of_one),
        step_(load.step_seconds),
        wait_(WaitOf(load, SquaredVariation(law))) {
    if (wait_.probability <= 0) return;
    double sum = 0;
    for (size_t i = 0; i < law.size(); ++i) {
      const double apart = i == 0 ? 0 : (law[i] - law[i - 1]) * mean_;
      sum = 1 + sum * std::exp(-apart / wait_.seconds);
      sums_.push_back(sum);
    }
  }

  double operator()(double seconds) const {
    const double left = seconds - step_;
    const auto over = std::ranges::upper_bound(law_, left, {}, [&](double l) { return l * mean_; });
    const auto count = static_cast<size_t>(over - law_.begin());
    double later = static_cast<double>(law_.size() - count);
    if (count > 0 && wait_.probability > 0) {
      const double beyond = left - law_[count - 1] * mean_;
      later += wait_.probability * std::exp(-beyond / wait_.seconds) * sums_[count - 1];
    }
    return later / static_cast<double>(law_.size());
  }

 private:
  std::span<const double> law_;
  double mean_;  // seconds
  double step_;
  Wait wait_;
  std::vector<double> sums_;
};

}  // namespace

double TimeToFirstToken(const PromptLoad& load, std::span<const double> law, double percentile) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (PrefillUtilisation(load) >= 1 || load.rows_per_second_of_one <= 0) return kInfinite;
  const LaterShare later(load, law);
  const auto is_late = [&](double seconds) { return later(seconds) > 1 - percentile; };
  double low = 0;
  double high = std::max(load.step_seconds, 1e-3);
  while (is_late(high)) {
    if (high > 1e9) return kInfinite;
    low = high;
    high *= 2;
  }
  return Halve({low, high}, 20, [&](double seconds) { return !is_late(seconds); }).high;
}

}  // namespace janus::controllers
