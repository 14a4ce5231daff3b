#pragma once

#include "controllers/scaling/policy.h"
#include "controllers/scaling/world.h"

namespace janus::controllers {

// The error budget of a service. A target at a percentile of p allows 1 - p of the requests to miss
// it; what is kept in hand is moved until so many do. Room learned from the load alone is too much
// where requests are short or bursts are brief, and too little where overloads last.
//
// It integrates: every missed request adds, every request takes away what it may miss, so the share
// that misses settles at nine tenths of 1 - p whatever the load is like, as long as the bounds
// allow (the rule of adaptive conformal inference, Gibbs and Candes 2021). One number serves as
// long and short window: at 95 % a burst of misses adds 21 times as fast as their absence takes
// away.
struct ErrorBudget {
  // 0: what the load alone asks for; more: more in hand; within kLeastCaution and kMostCaution. In
  // halvings of the share of loads for which no room is kept.
  double caution = 0;
  double requests = 0;  // that ended of late,
  double seconds = 0;   // in so long

  friend bool operator==(const ErrorBudget&, const ErrorBudget&) = default;
};
inline constexpr double kLeastCaution = -3;
inline constexpr double kMostCaution = 2;

// The budget `elapsed_seconds` after the last decision. Its caution is unchanged where no request
// ended; all of it where none ever did, or no time has passed. `may_grow`: false while nothing that
// is allowed carries more, so that what is missed meanwhile does not have to be unlearned.
ErrorBudget After(ErrorBudget budget, const Ended& ended, double elapsed_seconds,
                  const ScalingPolicy& policy, bool may_grow);

// The share of loads that finds room: the TPOT target's percentile where caution is 0.
double ShareWithRoom(const ErrorBudget& budget, const ScalingPolicy& policy);

// The share of every target that a move may use: the policy's aim where caution is 0.
double AimOf(const ErrorBudget& budget, const ScalingPolicy& policy);

// The share of every target beyond which what is in place is left: all of it up to a caution of 1,
// since one small move after the other would stand in the way of a large one; then ever nearer to
// the aim, and the aim itself where caution is most, so that what is missed for long is acted on.
double LeaveAt(const ErrorBudget& budget, const ScalingPolicy& policy);

}  // namespace janus::controllers
