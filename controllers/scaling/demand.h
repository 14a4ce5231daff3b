#pragma once

#include "controllers/scaling/decide.h"

namespace janus::controllers {

// The load that arrives now, served or not. Unknown output lengths count as `output_tokens`. Its
// context is that of the decoding sequences.
Demand ArrivingDemand(const World& world, double output_tokens);

// Whether this service computes the prompts of its requests, beyond each one's last token. False
// also where nothing arrives.
bool ComputesPrompts(const World& world);

// The seconds for which a mean request decodes: its output tokens times the measured step, or else
// the observed TPOT; at most the target's. 0: the time is not known, or arrivals count at once.
// They do where this service computes prompts, as these are work as soon as they arrive.
double LifeSeconds(const World& world, const ScalingPolicy& policy, double output_tokens);

// How long the mean output of a new service is too low: the requests that end first are short. Ten
// lives of a mean request, at most LevelSeconds. The load then seems smaller than it is, and its
// rise to what it is seems a burst. 0: the time of a step is not known.
double LearnsLengthsFor(const World& world, const ScalingPolicy& policy, double output_tokens);

// The running sequences that end in a second, by the measured step, which may be longer than the
// target. 0: no step is known.
double EndingPerSecond(const World& world, double output_tokens);

// What is expected of the load until instances asked for now are ready.
struct UntilReady {
  double start_seconds = 0;
  double growth = 1;             // of the rate of arrivals, by then
  double served_per_second = 0;  // requests, by the instances that are ready now
};

// The load of arrivals that instances asked for now will find. Sequences follow arrivals only over
// the life of a request (M/M/inf): a share exp(-start / life) of those that run now is still there,
// and arrivals are the rest. Growth counts for these arrivals alone.
Demand WhenReady(const World& world, const ScalingPolicy& policy, double output_tokens,
                 const UntilReady& until);

// That load and the backlog that instances asked for now will find. A backlog that is gone by then
// needs none of them. It is worked off within recovery_seconds, a start and the life of a request,
// whichever is longest: within less than a life there would be room for more sequences than
// requests wait.
Demand WithBacklog(Demand when_ready, const World& world, const ScalingPolicy& policy,
                   double output_tokens, const UntilReady& until);

// Waiting requests beyond those that arrivals and their fluctuation explain. Requests that arrived
// within a tenth of the TTFT target (without one: of a second) do not count as waiting. Arrivals
// must be known.
double BacklogOf(const World& world, const ScalingPolicy& policy);

// The largest (smallest) load since `from_seconds`, term by term. Keys follow the largest sum of
// keys, not the longest single context. Samples are oldest first; without samples, `now`.
Demand PeakSince(const std::vector<Memory::Sample>& samples, double from_seconds,
                 const Demand& now);
Demand LeastSince(const std::vector<Memory::Sample>& samples, double from_seconds,
                  const Demand& now);

// The period of the mean above which a load rises. A shorter mean swings with the load, and room
// above it makes the service swing; for the traces m-large and azure ten minutes are better than
// five.
double LevelSeconds(const ScalingPolicy& policy);

// Adds the current moment to the samples. Adds to the burst history how far load and keys were,
// half a level's window ago, above their level around that time; the load over the life of a
// request, as sequences follow it. So a load that rises and stays is no burst. Levels with samples
// of the time in which lengths are learned do not count. Drops samples that are too old for a
// level, a start and `window_seconds`. For a world newer than the last one.
void RememberLoad(const World& world, const Demand& now, const ScalingPolicy& policy,
                  double start_seconds, double window_seconds, Memory& memory);

// A demand with room: the larger of its value and the rise above the largest level since then. The
// two are not added. The same for its keys: a context that gives them with the demand's tokens.
Demand WithRoom(const Demand& demand, double since_seconds, const Memory& memory,
                const ErrorBudget& budget, const ScalingPolicy& policy);

// A forecast after one more rate, `elapsed_seconds` after the last (< 0: the first).
//
// kEwma is Holt's: level and trend smoothed over 60 and 300 s. kSeasonal also keeps the mean rate
// of every bin of a season (a day), smoothed from season to season. All times of a forecast are
// those of one clock, and must be multiplied by ScalingPolicy::times_faster.
Memory::Forecast Observe(Memory::Forecast forecast, const ForecastPolicy& policy,
                         double time_seconds, double elapsed_seconds, double rate);

// The largest expected growth of the rate within `horizon_seconds`, as a factor of 1..4. A forecast
// fall has no effect.
double GrowthWithin(const Memory::Forecast& forecast, const ForecastPolicy& policy,
                    double time_seconds, double rate, double horizon_seconds);

}  // namespace janus::controllers
