#pragma once

#include <limits>
#include <optional>

#include "controllers/scaling/predictor.h"

namespace janus::controllers {

// The m and n that may be asked for, under limits on GPUs and on experts : attention. Bounds are
// inclusive and cover all pools together. The counts of a pool are multiples of the granules.
struct CountBounds {
  int min_m = 1;
  int max_m = 1;
  int step_m = 1;
  int min_n = 1;
  int max_n = 1;
  int step_n = 1;
  int fewest_n = 1;  // to hold the model, in each pool
  int most_m = 1;    // of a pool
  int most_n = 1;
  int min_pools = 1;
  int max_pools = 1;
  int max_gpus = 0;  // 0: no limit
  std::optional<Ratio> ratio_min;
  std::optional<Ratio> ratio_max;
};
// Bounds of a policy within those of the predictor, rounded inwards to whole pods. For copies of
// the whole model: as many as fit into the policy's GPUs of both roles.
CountBounds BoundsOf(const Predictor& predictor, const ScalingPolicy& policy);
// The bounds of one of so many equal pools. Nothing is within them if there are fewer GPUs than
// pools.
CountBounds OfEach(const CountBounds& all, int pools);
bool IsAllowed(const CountBounds& bounds, const Predictor& predictor, const Counts& counts);

// The allowed counts with most GPUs; nullopt: the limits exclude each other.
std::optional<Counts> LargestAllowed(const CountBounds& bounds, const Predictor& predictor);

// The allowed counts that need the fewest starts and stops of instances; among equals, those with
// fewest GPUs. nullopt: the limits exclude each other.
std::optional<Counts> NearestAllowed(const CountBounds& bounds, const Predictor& predictor,
                                     Counts from);

// The goal of a search: keep `share` of every target under the demand.
struct Wanted {
  const Predictor& predictor;
  const ScalingPolicy& policy;
  const Demand& demand;  // over all pools
  double share = 1;
  const Corrections& corrections;
  double tail = 1;

  bool Keeps(const Counts& c) const {
    return predictor.Keeps(c, demand, policy, share, corrections, tail);
  }
};

// The cheapest allowed counts that keep the goal. Among equals, those nearest to `near` (fewest
// starts and stops), then those with fewer pools, then with fewer experts. nullopt: no counts keep
// it. All pools have one size. A number of pools other than `near`'s is chosen only if it is
// cheaper, as it moves more.
//
// For every number of pools and every n, the fewest m is searched. It first finds the fewest that
// may keep the goal, starting from the result for the n before. Then it checks every m from there,
// as more instances can make a step longer. A test compares this with a check of every pair.
std::optional<Counts> Cheapest(const Wanted& wanted, const CountBounds& bounds, Counts near);

// The largest share of the demand, in 64ths, that some counts carry, and these counts. nullopt: not
// even 1/64.
struct Partial {
  double carried = 0;
  Counts counts;
};
std::optional<Partial> CheapestForMost(const Wanted& wanted, const CountBounds& bounds,
                                       Counts near);

}  // namespace janus::controllers
