#include "controllers/simulate/steady.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "controllers/halving.h"
#include "controllers/scaling/cheapest.h"

namespace janus::controllers {

Demand DemandOf(std::span<const SimulatedRequest> requests, double seconds) {
  double count = 0, input = 0, squares = 0, computed = 0, output = 0, keys = 0;
  for (const SimulatedRequest& request : requests) {
    const double weight = request.weight;
    const double prompt = request.input;
    count += weight;
    input += weight * prompt;
    computed += weight * (request.input - request.cached);
    squares += weight * prompt * prompt;
    output += weight * request.output;
    keys += weight * request.output * (prompt + request.output / 2.0);
  }
  Demand demand;
  if (count == 0) return demand;
  demand.requests_per_second = count / seconds;
  demand.prompt_tokens_per_second = computed / seconds;
  demand.output_tokens_per_second = output / seconds;
  demand.context = keys / output;
  demand.prompt_squared_variation = squares * count / (input * input) - 1;
  return demand;
}

std::vector<Demand> DemandByWindow(std::span<const SimulatedRequest> requests, double window_s) {
  std::vector<Demand> demands;
  for (auto begin = requests.begin(); begin != requests.end();) {
    const double start_s = std::floor(begin->arrival / window_s) * window_s;
    const auto end = std::ranges::lower_bound(begin, requests.end(), start_s + window_s, {},
                                              &SimulatedRequest::arrival);
    // The last window may end with the last request.
    const double last_s = std::max(requests.back().arrival - start_s, 1.0);
    demands.push_back(
        DemandOf({begin, end}, end == requests.end() ? std::min(window_s, last_s) : window_s));
    begin = end;
  }
  return demands;
}

double MeanPromptKeys(std::span<const SimulatedRequest> requests) {
  double tokens = 0, keys = 0;
  for (const SimulatedRequest& request : requests) {
    const double computed = request.input - request.cached;
    tokens += request.weight * computed;
    keys += request.weight * computed * (request.cached + computed / 2);
  }
  return tokens > 0 ? keys / tokens : 1;
}

double SteadyStep(const UnitShape& shape, const Demand& demand) {
  const double infinite = std::numeric_limits<double>::infinity();
  // Decoding sequences and prompt rows grow with the step time, which they make longer.
  double step = 0;
  const double reserved = GrowthOf(demand) * shape.growth_reserve_percent / 100;
  for (int i = 0; i < 100; ++i) {
    const double rows = demand.output_tokens_per_second * step;
    const double prompt_rows = demand.prompt_tokens_per_second * step;
    if (rows > static_cast<double>(shape.most_running) ||
        rows * (demand.context + reserved) > static_cast<double>(shape.kv_tokens) ||
        prompt_rows > shape.steps->PromptRows(rows, demand.context)) {
      return infinite;
    }
    const double next = shape.steps->At(std::max(rows, 1.0), demand.context, prompt_rows).seconds;
    if (std::abs(next - step) < 1e-4 * next) return next;
    step = next;
  }
  return step;
}

double CapacityOf(const UnitShape& shape, const Demand& mix, double step_seconds) {
  if (shape.kv_tokens <= 0 || mix.requests_per_second <= 0) return 0;
  double low = 0;
  double high = 1;
  const auto carries = [&](double rate) {
    return SteadyStep(shape, Scaled(mix, rate / mix.requests_per_second)) <= step_seconds;
  };
  while (high < 1e7 && carries(high)) {
    low = high;
    high *= 2;
  }
  return Halve({low, high}, 30, [&](double rate) { return !carries(rate); }).low;
}

}  // namespace janus::controllers
