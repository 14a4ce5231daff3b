#pragma once

#include <vector>

#include "controllers/scaling/policy.h"

namespace janus::controllers {

// An action's effect on one role.
struct CountChange {
  double time_seconds = 0;
  int added = 0;  // negative: removed
};

struct CountRange {
  int low = 0;
  int high = 0;
};

// How far a role may change now under its behavior, as in autoscaling/v2. The count at a period's
// start is the current one, minus what was added since, plus what was removed. Each rule allows a
// change from there, and `select` takes the widest or the narrowest. Counted in pods.
CountRange AllowedNow(const RolePolicy& role, int current, const std::vector<CountChange>& changes,
                      double now_seconds);

}  // namespace janus::controllers
