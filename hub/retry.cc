#include "hub/retry.h"

#include <algorithm>
#include <cmath>

namespace janus::hub {

std::optional<Seconds> PauseBeforeRetry(const RetryRule& rule, int attempts, Seconds since_progress,
                                        std::optional<Seconds> asked) {
  if (attempts >= rule.attempts) return std::nullopt;
  const Seconds own =
      std::min(rule.first_pause * std::exp2(std::min(attempts - 1, 30)), rule.longest_pause);
  const Seconds pause = asked.value_or(own);
  if (since_progress + pause > rule.patience) return std::nullopt;
  return pause;
}

}  // namespace janus::hub
