#include "controllers/scaling/budget.h"

#include <algorithm>
#include <cmath>

namespace janus::controllers {
namespace {

// How much caution falls in an hour in which all requests attain. Slow compared with a start and a
// request's length (minutes); as fast as bursts are forgotten.
constexpr double kPerHour = 0.25;
// Of the usual number of requests: an hour at night then counts less than one in the day.
constexpr double kHalfLife_s = 24 * 3600;
// The most hours' worth of requests that count in one decision: a flood after a quiet time is one
// burst.
constexpr double kMostHours = 0.25;
// The gap between aim and target moves with the square root of the quantile's change.
constexpr double kOfAim = 0.5;
// Above this caution, a configuration is left before it uses a whole target.
constexpr double kLeavesEarlier = 1;

// The part of the allowed misses to use. Misses beyond the bounds of caution and GPUs are not
// compensated.
constexpr double kSpent = 0.9;

// A request attains if it keeps both targets: the stricter percentile limits the misses.
double MayMiss(const ScalingPolicy& policy) {
  return kSpent * (1 - std::max(policy.tpot.percentile, policy.ttft ? policy.ttft->percentile : 0));
}

}  // namespace

ErrorBudget After(ErrorBudget budget, const Ended& ended, double elapsed_seconds,
                  const ScalingPolicy& policy, bool may_grow) {
  const bool is_counted = budget.requests > 0 || ended.requests > 0;
  if (!is_counted || elapsed_seconds <= 0) return budget;
  elapsed_seconds *= policy.times_faster;
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
