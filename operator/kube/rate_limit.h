#pragma once

#include <optional>

#include "common/clock.h"

namespace janus::control {

// A token bucket: `burst` calls at once, `per_second` in the long run. Callers learn when their
// turn is, first come first served, so that no caller polls. Thread-compatible.
class RateLimit {
 public:
  // per_second > 0, burst >= 1.
  RateLimit(double per_second, double burst, MonotonicTime now);

  // When the next call may go: `now`, or later. The turn counts as taken.
  MonotonicTime Take(MonotonicTime now);
  // The same where it comes sooner than `before`. Nothing: it does not, and none is taken.
  std::optional<MonotonicTime> Take(MonotonicTime now, MonotonicTime before);
  // A turn that was taken is not used after all: another call may have it. Turns that were told
  // stay as they were told.
  void GiveBack(MonotonicTime now);
  // For a caller that does not wait. False: there is no turn now, and none is taken.
  bool TryTake(MonotonicTime now);

 private:
  void Fill(MonotonicTime now);

  const double per_second_;
  const double burst_;
  double tokens_;  // at `as_of_`; below zero: turns that were given away ahead of time
  MonotonicTime as_of_;
};

}  // namespace janus::control
