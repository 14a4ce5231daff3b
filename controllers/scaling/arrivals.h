#pragma once

#include <vector>

#include "controllers/scaling/policy.h"
#include "controllers/scaling/world.h"

namespace janus::controllers {

// Over which arrivals are averaged. Pure.

// Seconds, shortest first: the interval of decisions, but 15 s to five minutes; a minute, or the
// interval if that is longer; and five minutes.
std::vector<double> ArrivalWindows(const ScalingPolicy& policy);

// What decisions react to: the arrivals of the minute. Those of the shortest window only where they
// exceed the minute's by more than chance (less than one in 700, if requests are
// independent): a jump is followed at once, and the noise of few requests is not.
ArrivalWindow ReactedTo(const ArrivalWindow& shortest, const ArrivalWindow& minute);

}  // namespace janus::controllers
