#include "controllers/scaling/arrivals.h"

#include <algorithm>
#include <cmath>

namespace janus::controllers {

std::vector<double> ArrivalWindows(const ScalingPolicy& policy) {
  const double longest = 300 / policy.times_faster;
  const double shortest = std::clamp(policy.interval_seconds, longest / 20, longest);
  return {shortest, std::max(shortest, longest / 5), longest};
}

ArrivalWindow ReactedTo(const ArrivalWindow& shortest, const ArrivalWindow& minute) {
  constexpr double kSeldom = 3;  // standard deviations: less than one in 700
  const double expected = minute.requests_per_second * shortest.window_seconds;
  const double came = shortest.requests_per_second * shortest.window_seconds;
  return came > expected + kSeldom * std::sqrt(expected) ? shortest : minute;
}

}  // namespace janus::controllers
