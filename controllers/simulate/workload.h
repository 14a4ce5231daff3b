#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace janus::controllers {

// A request of a simulation, or `weight` alike ones that arrive together.
struct SimulatedRequest {
  double arrival = 0;  // seconds from the start
  int32_t input = 1;   // tokens, >= 1
  int32_t output = 1;  // tokens, >= 1
  int32_t weight = 1;  // >= 1
  // Prompt tokens whose keys are there already: a cached prefix, or a prompt that was computed
  // elsewhere. Below `input`: the last token is always computed here.
  int32_t cached = 0;

  friend bool operator==(const SimulatedRequest&, const SimulatedRequest&) = default;
};

// How a trace becomes the demand of a service.
struct Replay {
  double factor = 1;      // requests that one row of the trace stands for; may be below 1
  int max_weight = 100;   // of a simulated request; 1 is exact and slowest
  double window_s = 600;  // over which the trace's rate is taken
  uint64_t seed = 1;
};

// Every row stands for `factor` requests of its lengths. They are spread evenly over the row's
// interval, the mean gap of its window, so that a row for 400 requests is no burst of 400, and are
// simulated in groups of at most `max_weight`, each at a random place in its share of the interval.
// `rows` ascend by arrival, and so does the answer. The same seed gives the same demand anywhere.
std::vector<SimulatedRequest> SpreadDemand(std::span<const SimulatedRequest> rows,
                                           const Replay& replay);

// Lengths of the requests of a window, tokens.
struct LengthDistribution {
  double mean = 1;
  double p50 = 1;
  double p90 = 1;
  double p99 = 1;
};

// The total of a service over one window, as ServeGen publishes them.
struct RateWindow {
  double start_s = 0;
  double rate = 0;  // requests per second
  LengthDistribution input;
  LengthDistribution output;
};

// Poisson arrivals at the windows' rates times `replay.factor`, in groups of `replay.max_weight`.
// Lengths are drawn independently, log-linearly between the given percentiles; the shortest length,
// in [1, p50], and where that is not enough the longest, in [p99, 4 p99], make the mean right. The
// last window is as long as the one before it.
std::vector<SimulatedRequest> DrawDemand(std::span<const RateWindow> windows, const Replay& replay);

}  // namespace janus::controllers
