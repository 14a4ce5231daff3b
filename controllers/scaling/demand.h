#pragma once

#include "controllers/scaling/decide.h"

namespace janus::controllers {

// The load that arrives now, served or not. Outputs that are not known yet count as
// `output_tokens`. Its context is what the sequences hold that decode.
Demand ArrivingDemand(const World& world, double output_tokens);

// The load that a world makes now: what arrives, and the requests that wait beyond what arrivals
// within a tenth of the TTFT target explain, as work to be done within recovery_seconds.
Demand DemandOf(const World& world, const ScalingPolicy& policy, double output_tokens);

// Requests that wait although arrivals and their fluctuation do not explain it. Arrivals are known.
double BacklogOf(const World& world, const ScalingPolicy& policy);

// A demand and `requests` of its kind on top, to be done within `seconds`.
Demand WithWork(Demand demand, double requests, double seconds);

// The largest (smallest) load since `from_seconds`, term by term; keys follow the heaviest sum of
// keys, not the longest single context. Samples oldest first; without any, `now`.
Demand PeakSince(const std::vector<Memory::Sample>& samples, double from_seconds,
                 const Demand& now);
Demand LeastSince(const std::vector<Memory::Sample>& samples, double from_seconds,
                  const Demand& now);

// What a load is seen to rise above: its mean of so long. Shorter means swing with the load itself,
// and room above them swings the service; ten minutes serve m-large and azure better than five.
inline constexpr double kLevelSeconds = 600;

// Adds this moment to the samples, and how far its load and keys stand above their level of a start
// ago to what is known of bursts; forgets samples that neither a level, a start nor
// `window_seconds` asks for. For a world newer than the last.
void RememberLoad(const World& world, const Demand& now, double start_seconds,
                  double window_seconds, Memory& memory);

// A demand that rises to what it is, or to what the largest level since then was seen to rise to if
// that is more: not one on top of the other.
Demand WithRoom(const Demand& demand, double since_seconds, const Memory& memory,
                const ErrorBudget& budget, const ScalingPolicy& policy);

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
