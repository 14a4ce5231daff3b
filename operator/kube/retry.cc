#include "operator/kube/retry.h"

#include <algorithm>
#include <cmath>

namespace janus::control {
namespace {

bool MayTryAgain(const ApiError& error, Repeat repeat) {
  if (error.code == StatusCode::kResourceExhausted) return error.http_status == 429;
  if (error.code != StatusCode::kUnavailable) return false;
  return repeat == Repeat::kHarmless || !error.outcome_unknown;
}

}  // namespace

std::minstd_rand RandomOf(uint32_t seed) {
  return std::minstd_rand(seed == 0 ? std::random_device()() : seed);
}

Seconds BackoffPause(Seconds first, Seconds longest, int attempt, std::minstd_rand& random) {
  const Seconds pause = std::min(longest, first * std::exp2(std::min(attempt - 1, 30)));
  return pause * std::uniform_real_distribution<double>(0.5, 1.0)(random);
}

std::optional<Seconds> PauseBeforeRetry(const RetryPolicy& policy, int attempt,
                                        const ApiError& error, Repeat repeat,
                                        std::minstd_rand& random) {
  if (attempt >= policy.max_attempts || !MayTryAgain(error, repeat)) return std::nullopt;
  const Seconds drawn = BackoffPause(policy.first_pause, policy.longest_pause, attempt, random);
  return std::max(drawn, error.retry_after.value_or(Seconds(0)));
}

}  // namespace janus::control
