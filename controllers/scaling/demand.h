#pragma once

#include "controllers/scaling/decide.h"

namespace janus::controllers {

// The load that a world makes now. Outputs that are not known yet count as `output_tokens`.
// Requests that wait beyond what arrivals within the TTFT target explain are work to be done within
// recovery_seconds, on top of the arrivals.
Demand DemandOf(const World& world, const ScalingPolicy& policy, double output_tokens);

// The largest (smallest) load since `from_seconds`, term by term; keys follow the heaviest sum of
// keys, not the longest single context. Samples oldest first; without any, `now`.
Demand PeakSince(const std::vector<Memory::Sample>& samples, double from_seconds,
                 const Demand& now);
Demand LeastSince(const std::vector<Memory::Sample>& samples, double from_seconds,
                  const Demand& now);

// A forecast after one more rate, `elapsed_seconds` after the last (< 0: the first).
//
// kEwma is Holt's: level and trend smoothed over 60 and 300 s. kSeasonal also keeps the mean rate
// of every bin of a season (a day), smoothed from season to season.
Memory::Forecast Observe(Memory::Forecast forecast, const ForecastPolicy& policy,
                         double time_seconds, double elapsed_seconds, double rate);

// By how much the rate is expected to have grown at its highest within `horizon_seconds`: 1..4. A
// fall is never acted on before it comes.
double GrowthWithin(const Memory::Forecast& forecast, const ForecastPolicy& policy,
                    double time_seconds, double rate, double horizon_seconds);

}  // namespace janus::controllers
