#pragma once

#include <algorithm>
#include <cmath>

namespace janus::controllers {

// The largest whole batch in [1, most] with `seconds(batch)` <= `target`; 0: even 1 is too slow.
// seconds must not fall as the batch grows. As it is nearly linear, the search looks where the line
// through known points meets the target, and every third time in the middle.
template <class Seconds>
double LargestBatch(double most, double target, const Seconds& seconds) {
  double high = std::floor(most);
  if (high < 1) return 0;
  double above = seconds(high) - target;
  if (above <= 0) return high;
  double low = 1;
  double below = seconds(low) - target;
  if (below > 0) return 0;
  for (int step = 1; high - low > 1; ++step) {
    const double share = step % 3 == 0 ? 0.5 : -below / (above - below);
    const double batch = std::clamp(std::floor(low + share * (high - low)), low + 1, high - 1);
    const double off = seconds(batch) - target;
    (off <= 0 ? low : high) = batch;
    (off <= 0 ? below : above) = off;
  }
  return low;
}

}  // namespace janus::controllers
