#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "controllers/simulate/policy.h"

namespace janus::controllers {

struct SimulationOptions {
  ServiceLevel level;
  Machinery machinery;
  double window_s = 600;  // of the records
  // How policies get latencies (at which percentile) and demand.
  ScalingPolicy scaling;
  // Called often. If it returns true, the run ends with Cancelled. Empty: never.
  std::function<bool()> should_stop = {};
};

// The run of one policy over a workload.
struct SimulationRun {
  std::string policy;
  Totals totals;
  std::vector<WindowRecord> windows;
  std::vector<DecisionRecord> decisions;     // only changes
  std::vector<Wish> wishes;                  // of the decisions
  std::vector<HoldRecord> holds;             // the most frequent first
  std::vector<std::pair<double, int>> gpus;  // from a time on, ascending
  double end_s = 0;                          // when the last request ended
  double searched_gpu_hours = 0;             // of Compare's oracle: see compare.h
  double strictness = 1;                     // of a peer's rule: see WholeInputs
};

// Called from time to time with the progress, 0..1.
using ProgressFunction = std::function<void(double)>;

// Runs `requests` (ascending by arrival, not empty) under a policy, until the last token. GPUs are
// paid from 0 to the last arrival; for every policy, the rest of the work is free. Deterministic.
// `truth` gives the times of steps; the policy has its own model. FailedPrecondition: the policy
// asked for something that cannot hold the model. Cancelled: should_stop returned true.
Result<SimulationRun> Simulate(std::span<const SimulatedRequest> requests, ShapeBook* truth,
                               SimulatedPolicy* policy, const SimulationOptions& options,
                               const ProgressFunction& progress);

}  // namespace janus::controllers
