#pragma once

#include <vector>

#include "controllers/scaling/policy.h"

namespace janus::controllers {

// An action's effect on one role at one time.
struct CountChange {
  double time_seconds = 0;
  int added = 0;  // negative: removed
};

struct CountRange {
  int low = 0;
  int high = 0;
};

// How far a role's instances may go now under its behavior, as autoscaling/v2 reads it: the count
// at a period's begin is the present one less what was added since, plus what was removed; each
// rule allows a change from there, and `select` takes the widest or the narrowest. Counted in pods.
CountRange AllowedNow(const RolePolicy& role, int current, const std::vector<CountChange>& changes,
                      double now_seconds);

}  // namespace janus::controllers
