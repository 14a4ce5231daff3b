#pragma once

#include <limits>
#include <optional>

#include "controllers/scaling/predictor.h"

namespace janus::controllers {

// Which m and n may be asked for, under limits on GPUs and on experts : attention. Bounds are of
// all pools together (inclusive); what a pool has is a multiple of the granules.
struct CountBounds {
  int min_m = 1;
  int max_m = 1;
  int step_m = 1;
  int min_n = 1;
  int max_n = 1;
  int step_n = 1;
  int fewest_n = 1;  // that hold the model, of each pool
  int most_m = 1;    // of a pool
  int most_n = 1;
  int max_pools = 1;
  int max_gpus = 0;  // 0: no limit
  std::optional<Ratio> ratio_min;
  std::optional<Ratio> ratio_max;
};
// Bounds of a policy within what the predictor knows, rounded inwards to whole pods. Of copies of
// the whole model: as many as the policy's GPUs of both roles have room for.
CountBounds BoundsOf(const Predictor& predictor, const ScalingPolicy& policy);
bool IsAllowed(const CountBounds& bounds, const Predictor& predictor, const Counts& counts);

// The allowed counts of most GPUs; nullopt: limits exclude each other.
std::optional<Counts> LargestAllowed(const CountBounds& bounds, const Predictor& predictor);

// The allowed counts that are reached by starting and stopping fewest instances; of as many those
// of fewest GPUs. nullopt: limits exclude each other.
std::optional<Counts> NearestAllowed(const CountBounds& bounds, const Predictor& predictor,
                                     Counts from);

// What a search is for: keep `share` of every target under the demand.
struct Wanted {
  const Predictor& predictor;
  const ScalingPolicy& policy;
  const Demand& demand;  // on all pools
  double share = 1;
  const Corrections& corrections;
  double tail = 1;

  bool Keeps(const Counts& c) const {
    return predictor.Keeps(c, demand, policy, share, corrections, tail);
  }
};

// The allowed counts of least cost that keep what is wanted; of equal cost those nearest to `near`
// (fewest instances to start or stop), then those with fewer pools and fewer experts. nullopt: none
// do. Pools are all of one size. Other numbers of pools than `near` has count only where they are
// cheaper: they move more.
//
// For every number of pools and every n the fewest m is searched: first the fewest that may keep
// it, around that of the n before, then every m from there on, so that nothing is missed where more
// instances lengthen a step. A test compares with asking every pair.
std::optional<Counts> Cheapest(const Wanted& wanted, const CountBounds& bounds, Counts near);

// The largest share of the demand, in 64ths, for which there are such counts, and these counts;
// nullopt: not even a 64th of it.
struct Partial {
  double carried = 0;
  Counts counts;
};
std::optional<Partial> CheapestForMost(const Wanted& wanted, const CountBounds& bounds,
                                       Counts near);

}  // namespace janus::controllers
