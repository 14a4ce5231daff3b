#pragma once

#include "controllers/scaling/policy.h"
#include "controllers/scaling/world.h"

namespace janus::controllers {

// The error budget of a service. A target at percentile p allows a share 1 - p of the requests to
// miss. The reserve is adjusted until that many do. A reserve learned from the load alone would be
// too large for short requests or brief bursts, and too small for long overloads.
//
// It integrates: every missed request adds caution, and every request takes away its allowed share.
// The share of misses then settles at nine tenths of 1 - p for any load, as far as the bounds allow
// (the rule of adaptive conformal inference, Gibbs and Candes 2021). One number serves as a long
// and a short window: at 95 %, a burst of misses adds 21 times as fast as their absence takes away.
struct ErrorBudget {
  // 0: the reserve that the load alone asks for. Higher: a larger reserve. Within kLeastCaution and
  // kMostCaution. The unit is halvings of the share of loads for which there is no room.
  double caution = 0;
  double requests = 0;  // that ended recently,
  double seconds = 0;   // in so many seconds, times ScalingPolicy::times_faster

  friend bool operator==(const ErrorBudget&, const ErrorBudget&) = default;
};
inline constexpr double kLeastCaution = -3;
inline constexpr double kMostCaution = 2;

// The budget `elapsed_seconds` after the last decision. If no request ended, its caution stays. If
// no request ever ended, or no time has passed, all of it stays. `may_grow`: false if nothing
// allowed carries more; misses during that time then need not be unlearned.
ErrorBudget After(ErrorBudget budget, const Ended& ended, double elapsed_seconds,
                  const ScalingPolicy& policy, bool may_grow);

// The share of loads for which there is room: the TPOT target's percentile if caution is 0.
double ShareWithRoom(const ErrorBudget& budget, const ScalingPolicy& policy);

// The share of every target that a new configuration may use: the policy's aim if caution is 0.
double AimOf(const ErrorBudget& budget, const ScalingPolicy& policy);

// The share of every target above which a configuration is left. Up to a caution of 1 it is the
// whole target, as many small moves would delay a large one. Then it approaches the aim, and
// reaches it at the highest caution: a target that is missed for long causes an action.
double LeaveAt(const ErrorBudget& budget, const ScalingPolicy& policy);

}  // namespace janus::controllers
