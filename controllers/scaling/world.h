#pragma once

#include <optional>
#include <string>
#include <vector>

#include "controllers/fit/online.h"
#include "controllers/plan/performance.h"

namespace janus::controllers {

// What a scaling decision sees of a service at one moment. Plain values: whoever calls fills them
// in, the operator from statistics and pods, the simulator from its own state. Everything is
// observed, nothing assumed; what is unknown is absent or says so. Seconds and tokens throughout;
// time is any clock that does not go back.

// Arrivals averaged over the window that ends at World::time_seconds. What arrived counts, served
// or not: an overloaded service's throughput hides its demand.
struct ArrivalWindow {
  double window_seconds = 0;
  double requests_per_second = 0;
  double prompt_tokens_per_second = 0;

  friend bool operator==(const ArrivalWindow&, const ArrivalWindow&) = default;
};

// Lengths of requests lately. Outputs are known only of those that finished.
struct Lengths {
  double output_tokens = 0;             // mean; 0: none finished yet
  double prompt_squared_variation = 1;  // variance over squared mean of prompt lengths
  double prompt_tokens_at_percentile =
      0;                           // at the TTFT target's percentile; 0: taken from the mean
  double prompt_cached_share = 0;  // of prompt tokens found in the prefix cache

  friend bool operator==(const Lengths&, const Lengths&) = default;
};

// Requests inside the service now, all attention instances together.
struct Occupancy {
  double running = 0;                 // sequences that decode
  double waiting = 0;                 // requests without a first token: queued or in prefill
  double waiting_prompt_tokens = 0;   // of these, not computed yet
  double oldest_waiting_seconds = 0;  // age of the one that waits longest
  double kv_tokens_used = 0;          // of ready instances
  // Of these, what sequences that decode hold: prompts that are being computed and requests that
  // wait for keys again hold the rest. Absent: not counted apart.
  std::optional<double> kv_tokens_running = {};
  double kv_tokens_capacity = 0;  // of ready instances; 0: not known, the model's is taken

  friend bool operator==(const Occupancy&, const Occupancy&) = default;
};

// Latencies at the targets' percentiles over the last interval or two, of requests that finished
// (TPOT) or got their first token (TTFT) in it.
struct Observed {
  std::optional<double> tpot_seconds;
  std::optional<double> ttft_seconds;
  double tpot_requests = 0;  // behind the percentile
  double ttft_requests = 0;

  friend bool operator==(const Observed&, const Observed&) = default;
};

// Requests that ended since the last decision, and of these how many kept both latency targets;
// what was refused ended and did not. 0 of 0: none ended, or they are not counted.
struct Ended {
  double requests = 0;
  double attained = 0;

  friend bool operator==(const Ended&, const Ended&) = default;
};

// Instances of one role, counted by state; not pods.
struct RoleState {
  int ready = 0;     // members of the committed topology, all pools together
  int starting = 0;  // asked for, not committed yet
  int draining = 0;  // no longer members, finishing their work; they still cost
  // Age of the youngest ready one: while it warms up, measurements are not learned from.
  double youngest_ready_seconds = 1e9;
  // Asked-for to committed, of instances that became ready since the last decision.
  std::vector<double> start_seconds;

  friend bool operator==(const RoleState&, const RoleState&) = default;
};

// A change of counts that was asked for and has not been fulfilled or given up: the latest.
struct InFlight {
  int m = 0;  // of a pool
  int n = 0;
  double since_seconds = 0;  // when it was asked for, on World's clock
  int pools = 1;

  friend bool operator==(const InFlight&, const InFlight&) = default;
};

struct World {
  double time_seconds = 0;
  std::vector<ArrivalWindow> arrivals;  // shortest first; the shortest is reacted to
  Lengths lengths;
  Occupancy now;
  Observed observed;
  Ended ended;
  std::optional<StepSample> step;  // measured since the last decision
  Configuration current;           // the committed topology; m and n are a pool's ready members
  RoleState attention;
  RoleState experts;
  std::optional<InFlight> in_flight;
  bool is_paused = false;
  bool is_rolling_out = false;

  friend bool operator==(const World&, const World&) = default;
};

}  // namespace janus::controllers
