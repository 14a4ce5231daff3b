#pragma once

#include <optional>
#include <string>
#include <vector>

#include "controllers/fit/online.h"
#include "controllers/plan/performance.h"

namespace janus::controllers {

// What a scaling decision knows of a service at one moment. Plain values: the operator fills them
// in from statistics and pods, the simulator from its state. Everything is observed; unknown values
// are absent or marked. Units are seconds and tokens. Time is any clock that does not go back.

// Arrivals, averaged over the window that ends at World::time_seconds. They count whether they were
// served or not: the throughput of an overloaded service hides its demand.
struct ArrivalWindow {
  double window_seconds = 0;
  double requests_per_second = 0;
  double prompt_tokens_per_second = 0;

  friend bool operator==(const ArrivalWindow&, const ArrivalWindow&) = default;
};

// Lengths of recent requests. Output lengths are known only for those that finished.
struct Lengths {
  double output_tokens = 0;             // mean; 0: no request finished yet
  double prompt_squared_variation = 1;  // variance over squared mean of prompt lengths
  double prompt_tokens_at_percentile =
      0;                           // at the TTFT target's percentile; 0: taken from the mean
  double prompt_cached_share = 0;  // of prompt tokens found in the prefix cache

  friend bool operator==(const Lengths&, const Lengths&) = default;
};

// Requests inside the service now, all attention instances together.
struct Occupancy {
  double running = 0;                 // sequences that decode
  double waiting = 0;                 // requests that do not decode: queued, in prefill, or
                                      // computed again because they lost their keys
  double waiting_prompt_tokens = 0;   // of waiting requests, not computed yet
  double oldest_waiting_seconds = 0;  // age of the oldest waiting request
  double kv_tokens_used = 0;          // of ready instances
  // The part of them that decoding sequences hold. Prompts being computed and preempted requests
  // hold the rest. Absent: not counted separately.
  std::optional<double> kv_tokens_running = {};
  double kv_tokens_capacity = 0;  // of ready instances; 0: use the model's figure

  friend bool operator==(const Occupancy&, const Occupancy&) = default;
};

// Latencies at the targets' percentiles over the last one or two intervals: TPOT of requests that
// finished, TTFT of requests that got their first token.
struct Observed {
  std::optional<double> tpot_seconds;
  std::optional<double> ttft_seconds;
  double tpot_requests = 0;  // in the percentile
  double ttft_requests = 0;

  friend bool operator==(const Observed&, const Observed&) = default;
};

// Requests that ended since the last decision, and how many of them kept both latency targets. A
// refused request ended without keeping them. 0 of 0: no request ended, or they are not counted.
struct Ended {
  double requests = 0;
  double attained = 0;

  friend bool operator==(const Ended&, const Ended&) = default;
};

// Instances of one role, counted by state; not pods.
struct RoleState {
  int ready = 0;     // members of the committed topology, all pools together
  int starting = 0;  // asked for, not committed yet
  int draining = 0;  // no longer members; they finish their work and still cost
  // Age of the youngest ready instance: while it warms up, measurements are not learned from.
  double youngest_ready_seconds = 1e9;
  // Time from request to commit, for instances that became ready since the last decision.
  std::vector<double> start_seconds;

  friend bool operator==(const RoleState&, const RoleState&) = default;
};

// The latest change of counts that is neither fulfilled nor withdrawn.
struct InFlight {
  int m = 0;  // of a pool
  int n = 0;
  double since_seconds = 0;  // when it was asked for, on World's clock
  int pools = 1;

  friend bool operator==(const InFlight&, const InFlight&) = default;
};

struct World {
  double time_seconds = 0;
  // Decisions react to the first. The second, where there is one, is of a minute or longer: by it,
  // room for bursts is learned.
  std::vector<ArrivalWindow> arrivals;
  Lengths lengths;
  Occupancy now;
  Observed observed;
  Ended ended;
  std::optional<StepSample> step;  // of a mean pool, measured since the last decision
  Configuration current;           // the committed topology; m and n are the ready members of a
                                   // pool
  RoleState attention;
  RoleState experts;
  std::optional<InFlight> in_flight;
  bool is_paused = false;
  bool is_rolling_out = false;

  friend bool operator==(const World&, const World&) = default;
};

}  // namespace janus::controllers
