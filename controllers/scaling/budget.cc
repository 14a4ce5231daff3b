#include "controllers/scaling/budget.h"

#include <algorithm>
#include <cmath>

namespace janus::controllers {
namespace {

// By how much an hour of requests that all attain takes caution down: slow beside a start and the
// length of a request (minutes), as fast as bursts are forgotten.
constexpr double kPerHour = 0.25;
// Of what is usual, so that an hour of the night counts less than one of the day.
constexpr double kHalfLife_s = 24 * 3600;
// At most so many hours' requests count at one decision: a flood after a quiet time is one burst.
constexpr double kMostHours = 0.25;
// The gap between aim and target moves as the root of what the quantile does.
constexpr double kOfAim = 0.5;
// The caution beyond which what is in place is left before it uses a target whole.
constexpr double kLeavesEarlier = 1;

// Of what may be missed; what is cut off by the bounds of caution and of GPUs is not made up for.
constexpr double kSpent = 0.9;

// A request attains when it keeps both targets, so the stricter one says how many may not.
double MayMiss(const ScalingPolicy& policy) {
  return kSpent * (1 - std::max(policy.tpot.percentile, policy.ttft ? policy.ttft->percentile : 0));
}

}  // namespace

ErrorBudget After(ErrorBudget budget, const Ended& ended, double elapsed_seconds,
                  const ScalingPolicy& policy, bool may_grow) {
  const bool is_counted = budget.requests > 0 || ended.requests > 0;
  if (!is_counted || elapsed_seconds <= 0) return budget;
  const double kept = std::exp2(-elapsed_seconds / kHalfLife_s);
  budget.requests = kept * budget.requests + ended.requests;
  budget.seconds = kept * budget.seconds + elapsed_seconds;
  if (ended.requests <= 0) return budget;
  const double hours =
      std::min(ended.requests * budget.seconds / budget.requests / 3600, kMostHours);
  const double missed = 1 - ended.attained / ended.requests;
  const double change = kPerHour * hours * (missed / MayMiss(policy) - 1);
  if (change > 0 && !may_grow) return budget;
  budget.caution = std::clamp(budget.caution + change, kLeastCaution, kMostCaution);
  return budget;
}

double ShareWithRoom(const ErrorBudget& budget, const ScalingPolicy& policy) {
  if (budget.caution == 0) return policy.tpot.percentile;
  return std::max(1 - (1 - policy.tpot.percentile) * std::exp2(-budget.caution), 0.0);
}

double AimOf(const ErrorBudget& budget, const ScalingPolicy& policy) {
  if (budget.caution == 0) return policy.aim;
  return std::max(1 - (1 - policy.aim) * std::exp2(kOfAim * budget.caution), policy.aim / 2);
}

double LeaveAt(const ErrorBudget& budget, const ScalingPolicy& policy) {
  const double share =
      std::max(budget.caution - kLeavesEarlier, 0.0) / (kMostCaution - kLeavesEarlier);
  return 1 - share * (1 - AimOf(budget, policy));
}

}  // namespace janus::controllers
