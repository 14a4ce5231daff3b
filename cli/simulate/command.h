#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/plan/inputs.h"
#include "cli/simulate/demand.h"
#include "common/status.h"
#include "controllers/plan/goal.h"
#include "controllers/scaling/policy.h"
#include "controllers/simulate/perturbed.h"

namespace janus::cli {

// Options of `janusctl simulate`.
struct SimulateOptions {
  SettingOptions setting;
  DemandOptions demand;
  // Targets, counts, granule, intervals, learning. Defaults: 100 ms and 10 s at P95, 1024 sequences
  // per attention instance, and a forecast by trend.
  controllers::ScalingPolicy scaling = DefaultScaling();
  std::vector<std::string> policies;  // empty: all that can run
  std::string first_counts;           // mAnE: what "ours" begins with; empty: planned
  double start_seconds = 120;         // of an instance, from the request to ready
  double rows_for_one = 1;            // a request takes the time and memory of so many
  int growth_reserve_percent = 50;    // memory that admission keeps free for tokens to come
  double pause_milliseconds = 100;    // a change of members stops the steps for so long
  double oracle_attainment = 0;       // 0: the attainment of policy "ours"
  double oracle_interval_seconds = 120;
  double window_seconds = 600;     // of the records
  controllers::TermFactors truth;  // the true times, as factors of what policies assume
  std::string html;                // output file
  bool json = false;
  bool all_modes = false;  // also ways to exchange rows that this version does not serve on GPUs
  // Of mode, gate, sum and wire: those that the service fixes.
  controllers::PlanPins pins;
  ExchangeOptions exchange;
  bool tightens_peers = false;  // peers that miss the target run again with stricter thresholds

  static controllers::ScalingPolicy DefaultScaling();
};

// Returns the text to print, and writes options.html. Calls `progress` with a line that replaces
// the one before, or with an empty one. Calls `should_stop` often; if it returns true, the result
// is Cancelled. InvalidArgument, FailedPrecondition, NotFound: what is wrong and what to do.
Result<std::string> Simulate(const SimulateOptions& options,
                             const std::function<void(const std::string&)>& progress,
                             const std::function<bool()>& should_stop = {});

}  // namespace janus::cli
