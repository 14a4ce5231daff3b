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
  // How policies are told latencies (at which percentile) and demand.
  ScalingPolicy scaling;
  // Asked often; once it says yes the run ends with Cancelled. Empty: never.
  std::function<bool()> should_stop = {};
};

// What one policy made of a workload.
struct SimulationRun {
  std::string policy;
  Totals totals;
  std::vector<WindowRecord> windows;
  std::vector<DecisionRecord> decisions;     // changes only
  std::vector<Wish> wishes;                  // of the decisions
  std::vector<HoldRecord> holds;             // the most frequent first
  std::vector<std::pair<double, int>> gpus;  // from a time on, ascending
  double end_s = 0;                          // when the last request was done
  double searched_gpu_hours = 0;             // of Compare's oracle: compare.h
  double strictness = 1;                     // of a peer's rule: WholeInputs
};

// Progress, 0..1; called every now and then.
using ProgressFunction = std::function<void(double)>;

// Runs `requests` (ascending by arrival, not empty) under a policy, to the last token. GPUs are
// paid from 0 to the last arrival; what is left then runs out unpaid, alike for every policy.
// Deterministic. `truth` gives the times of steps; the policy decides by what it was made with.
// FailedPrecondition: what the policy asks for cannot hold the model. Cancelled: it was stopped.
Result<SimulationRun> Simulate(std::span<const SimulatedRequest> requests, ShapeBook* truth,
                               SimulatedPolicy* policy, const SimulationOptions& options,
                               const ProgressFunction& progress);

}  // namespace janus::controllers
