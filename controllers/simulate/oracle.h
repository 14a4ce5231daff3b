#pragma once

#include <vector>

#include "controllers/scaling/predictor.h"
#include "controllers/simulate/simulate.h"

namespace janus::controllers {

// The least that any schedule of separated plans could cost, knowing every request: what a policy
// is judged against, not one that could run.
//
// 1. Every plan is run alone over the whole workload, so that what happens in an interval under it
//    is known of the realised requests: queues, preemption, prompts and all.
// 2. Dynamic programming over the intervals chooses a plan for each, at the least GPU time with the
//    requests that miss their level weighed by a price; instances are asked for a start before they
//    are needed, and paid from then on.
// 3. The schedule is run, and refuses what would wait too long for its first token. The price is
//    the lowest, by bisection, at which its attainment is at least what is asked for. Because a
//    plan is met by what the one before it left, plans with more and more in hand are tried too.
struct OracleOptions {
  double interval_s = 120;
  double attainment = 0.99;  // of all requests
  int prices = 10;           // that bisection tries
};

// Plans worth considering: the cheapest for each of `levels` demands of the mean mix, evenly spaced
// in the logarithm from half the quietest window's load to half as much again as the busiest's;
// ascending by cost, none twice.
std::vector<Wish> PlansForLevels(const Predictor& predictor, const ScalingPolicy& scaling,
                                 std::span<const SimulatedRequest> requests, double window_s,
                                 int levels);

// FailedPrecondition: no plan among `plans` attains it even when it runs all the time; the best is
// named.
Result<SimulationRun> SimulateOracle(std::span<const SimulatedRequest> requests, ShapeBook* truth,
                                     const std::vector<Wish>& plans,
                                     const SimulationOptions& options, const OracleOptions& oracle,
                                     const ProgressFunction& progress);

}  // namespace janus::controllers
