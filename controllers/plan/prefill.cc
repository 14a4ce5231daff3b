#include "controllers/plan/prefill.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace janus::controllers {

double PrefillUtilisation(const PromptLoad& load) {
  const double offered = load.requests_per_second * load.prompt_tokens;
  if (offered <= 0) return 0;
  const double capacity = load.servers * load.rows_per_second_of_one;
  return capacity > 0 ? offered / capacity : std::numeric_limits<double>::infinity();
}

double TimeToFirstToken(const PromptLoad& load, double percentile) {
  const double utilisation = PrefillUtilisation(load);
  if (utilisation >= 1) return std::numeric_limits<double>::infinity();
  const double own = load.rows_per_second_of_one > 0
                         ? load.prompt_tokens_at_percentile / load.rows_per_second_of_one
                         : 0;
  double wait = 0;
  if (utilisation > 0) {
    const double service = load.prompt_tokens / load.rows_per_second_of_one;
    // Sakasegawa: a request waits with probability u^(sqrt(2(c+1)) - 1), then on average
    // service (1 + cv^2) / (2 c (1 - u)); the tail is exponential.
    const double waits = std::pow(utilisation, std::sqrt(2 * (load.servers + 1)) - 1);
    const double mean =
        service * (1 + load.prompt_squared_variation) / (2 * load.servers * (1 - utilisation));
    wait = mean * std::max(std::log(waits / (1 - percentile)), 0.0);
  }
  return wait + own + load.step_seconds;
}

}  // namespace janus::controllers
