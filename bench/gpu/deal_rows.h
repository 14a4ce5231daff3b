#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace janus::bench {

// Deals `rows` rows to `experts` experts: at least one each (rows >= experts), the rest by a normal
// distribution over the experts' ids. `deviation` is its standard deviation, as a share of the
// number of experts; 0: evenly. (JANUS 2.2: skew by the variance, every expert selected.)
inline std::vector<int> DealRows(int experts, int rows, double deviation) {
  const auto count = static_cast<size_t>(experts);
  std::vector<double> share(count, 1.0);
  for (size_t e = 0; e < count && deviation > 0.0; ++e) {
    const double from_middle = (static_cast<double>(e) - 0.5 * (experts - 1)) / experts;
    share[e] = std::exp(-0.5 * from_middle * from_middle / (deviation * deviation));
  }
  double total = 0.0;
  for (const double s : share) total += s;
  // Rounds the running sum, so that the total is exact.
  std::vector<int> of(count);
  double until = 0.0;
  int dealt = 0;
  for (size_t e = 0; e < count; ++e) {
    until += share[e];
    const auto end = static_cast<int>(std::lround((rows - experts) * (until / total)));
    of[e] = 1 + end - dealt;
    dealt = end;
  }
  return of;
}

}  // namespace janus::bench
