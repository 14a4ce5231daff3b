#pragma once

#include <limits>
#include <optional>

#include "controllers/scaling/predictor.h"

namespace janus::controllers {

// Which m and n may be asked for: multiples of the granules between the bounds (inclusive), under
// limits on GPUs and on experts : attention.
struct CountBounds {
  int min_m = 1;
  int max_m = 1;
  int step_m = 1;
  int min_n = 1;
  int max_n = 1;
  int step_n = 1;
  int max_gpus = 0;  // 0: no limit
  std::optional<Ratio> ratio_min;
  std::optional<Ratio> ratio_max;
};
// Bounds of a policy within what the predictor knows, rounded inwards to whole pods; expert
// instances no fewer than hold the model.
CountBounds BoundsOf(const Predictor& predictor, const ScalingPolicy& policy);
bool IsAllowed(const CountBounds& bounds, const Predictor& predictor, int m, int n);

struct Counts {
  int m = 0;
  int n = 0;

  friend bool operator==(const Counts&, const Counts&) = default;
};

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
  const Demand& demand;
  double share = 1;
  const Corrections& corrections;
  double tail = 1;

  bool Keeps(Counts c) const {
    return predictor.Keeps(c.m, c.n, demand, policy, share, corrections, tail);
  }
  bool MayKeep(int fewest_m, Counts c) const {
    return predictor.MayKeep(fewest_m, c.m, c.n, demand, policy, share, corrections, tail);
  }
};

// The allowed counts of least cost that keep what is wanted; of equal cost those nearest to `near`
// (fewest instances to start or stop), then those with fewer experts. nullopt: none do.
//
// For every n the fewest m is searched: first the fewest that may keep it, around that of the n
// before, then every m from there on, so that nothing is missed where more instances lengthen a
// step. A test compares with asking every pair.
std::optional<Counts> Cheapest(const Wanted& wanted, const CountBounds& bounds, Counts near);

// The largest share of the demand, in 64ths, for which there are such counts, and these counts;
// nullopt: not even a 64th of it.
struct Partial {
  double carried = 0;
  Counts counts;
};
std::optional<Partial> CheapestForMost(const Wanted& wanted, const CountBounds& bounds,
                                       Counts near);

// A demand with all its rates and sequences multiplied.
Demand Scaled(const Demand& demand, double factor);

}  // namespace janus::controllers
