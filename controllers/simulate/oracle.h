#pragma once

#include <vector>

#include "controllers/scaling/predictor.h"
#include "controllers/simulate/simulate.h"

namespace janus::controllers {

// The least cost of any schedule of separated plans that knows every request. It is a bound to
// judge policies, not a policy that could run.
//
// 1. Every plan runs alone over the whole workload. This shows what happens under it in each
//    interval with the real requests: queues, preemption, prompts.
// 2. Dynamic programming over the intervals chooses a plan for each. It minimises GPU time plus a
//    price for each missed request. Instances are requested one start before they are needed, and
//    paid from then on.
// 3. The schedule runs, and refuses requests that would wait too long for the first token.
//    Bisection finds the lowest price for which attainment is sufficient. As a plan also gets what
//    the one before it left, plans with larger and larger reserves are tried.
struct OracleOptions {
  double interval_s = 120;
  double attainment = 0.99;  // of all requests
  int prices = 10;           // prices that bisection tries
};

// Candidate plans: the cheapest for each of `levels` demands of the mean mix. Demands are evenly
// spaced in the logarithm, from half the quietest window's load to one and a half times the
// busiest's. Ascending by cost, without duplicates.
std::vector<Wish> PlansForLevels(const Predictor& predictor, const ScalingPolicy& scaling,
                                 std::span<const SimulatedRequest> requests, double window_s,
                                 int levels);

// FailedPrecondition: no plan among `plans` attains the goal even if it runs all the time. The
// message names the best.
Result<SimulationRun> SimulateOracle(std::span<const SimulatedRequest> requests, ShapeBook* truth,
                                     const std::vector<Wish>& plans,
                                     const SimulationOptions& options, const OracleOptions& oracle,
                                     const ProgressFunction& progress);

}  // namespace janus::controllers
