#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace janus::controllers {

// A request of a simulation, or `weight` identical ones that arrive together.
struct SimulatedRequest {
  double arrival = 0;  // seconds from the start
  int32_t input = 1;   // tokens, >= 1
  int32_t output = 1;  // tokens, >= 1
  int32_t weight = 1;  // >= 1
  // Prompt tokens that have keys already: a cached prefix, or a prompt computed elsewhere. Below
  // `input`: the last token is always computed here.
  int32_t cached = 0;

  friend bool operator==(const SimulatedRequest&, const SimulatedRequest&) = default;
};

// How a trace becomes the demand of a service.
struct Replay {
  double factor = 1;      // requests per row of the trace; may be below 1
  int max_weight = 100;   // of a simulated request; 1 is exact and slowest
  double window_s = 600;  // window for the trace's rate
  uint64_t seed = 1;
};

// Every row stands for `factor` requests with its lengths. They are spread evenly over the row's
// interval, which is the mean gap of its window: a row for 400 requests is then no burst of 400.
// They are simulated in groups of at most `max_weight`, each at a random place in its share of the
// interval. `rows` ascend by arrival, and so does the result. The same seed gives the same demand
// on every machine.
std::vector<SimulatedRequest> SpreadDemand(std::span<const SimulatedRequest> rows,
                                           const Replay& replay);

// Lengths of the requests of a window, tokens.
struct LengthDistribution {
  double mean = 1;
  double p50 = 1;
  double p90 = 1;
  double p99 = 1;
};

// The total of a service over one window, as ServeGen publishes it.
struct RateWindow {
  double start_s = 0;
  double rate = 0;  // requests per second
  LengthDistribution input;
  LengthDistribution output;
};

// Poisson arrivals at the windows' rates times `replay.factor`, in groups of `replay.max_weight`.
// Lengths are independent and log-linear between the given percentiles. The shortest length, in [1,
// p50], is adjusted to give the right mean; if that is not enough, also the longest, in [p99, 4
// p99]. The last window is as long as the one before it.
std::vector<SimulatedRequest> DrawDemand(std::span<const RateWindow> windows, const Replay& replay);

}  // namespace janus::controllers
