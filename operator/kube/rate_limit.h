#pragma once

#include <optional>

#include "common/clock.h"

namespace janus::control {

// A token bucket: `burst` calls at once, `per_second` in the long run. A caller learns the time of
// its turn, first come first served, so it does not poll. Thread-compatible.
class RateLimit {
 public:
  // per_second > 0, burst >= 1.
  RateLimit(double per_second, double burst, MonotonicTime now);

  // When the next call may start: `now`, or later. The turn counts as used.
  MonotonicTime Take(MonotonicTime now);
  // Takes a turn only if it is earlier than `before`; otherwise returns nothing and takes no turn.
  std::optional<MonotonicTime> Take(MonotonicTime now, MonotonicTime before);
  // Returns an unused turn, so that another call may have it. Turns already given out keep their
  // times.
  void GiveBack(MonotonicTime now);
  // For a caller that does not wait. False: no turn is free, and none is taken.
  bool TryTake(MonotonicTime now);

 private:
  void Fill(MonotonicTime now);

  const double per_second_;
  const double burst_;
  double tokens_;  // at `as_of_`; negative: turns given out ahead of time
  MonotonicTime as_of_;
};

}  // namespace janus::control
