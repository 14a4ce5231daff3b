#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/plan/inputs.h"
#include "cli/simulate/demand.h"
#include "common/status.h"
#include "controllers/scaling/policy.h"
#include "controllers/simulate/perturbed.h"

namespace janus::cli {

// `janusctl simulate`.
struct SimulateOptions {
  SettingOptions setting;
  DemandOptions demand;
  // Targets, counts, granule, intervals, learning; unless said otherwise 100 ms and 10 s at P95,
  // 1024 sequences an attention instance, and a forecast by trend.
  controllers::ScalingPolicy scaling = DefaultScaling();
  std::vector<std::string> policies;  // empty: all
  double start_seconds = 120;         // of an instance, from asked for to ready
  int growth_reserve_percent = 50;    // room that admission leaves for tokens still to come
  double pause_milliseconds = 100;    // that a change of members stops the steps
  double oracle_attainment = 0;       // 0: that of "ours"
  double oracle_interval_seconds = 120;
  double window_seconds = 600;     // of the records
  controllers::TermFactors truth;  // over what policies reckon with
  std::string html;                // file to write
  bool json = false;
  bool all_modes = false;       // ways of exchanging that this version does not serve, too
  bool tightens_peers = false;  // peers' rules at stricter thresholds where they miss the target

  static controllers::ScalingPolicy DefaultScaling();
};

// The text to print; writes options.html too. `progress` is called with a line that replaces the
// one before, or is empty. `should_stop` is asked often; once it says yes the answer is Cancelled.
// InvalidArgument, FailedPrecondition, NotFound: what is wrong and what to
// do.
Result<std::string> Simulate(const SimulateOptions& options,
                             const std::function<void(const std::string&)>& progress,
                             const std::function<bool()>& should_stop = {});

}  // namespace janus::cli
