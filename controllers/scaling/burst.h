#pragma once

#include <vector>

namespace janus::controllers {

// How far a service's load rises above its level before new instances would be ready. It is learned
// from the service: a small or bursty one needs more room than a large smooth one, and no constant
// fits both. A value of bounded size.
struct BurstHistory {
  // Weight by bin of load over level. The first bin has all loads that did not rise, the last all
  // above the largest. Empty: nothing was seen.
  std::vector<double> weights;

  friend bool operator==(const BurstHistory&, const BurstHistory&) = default;
};

// The history after one more load, `elapsed_seconds` after the last. A load's weight is
// `load_over_level`, not 1: the target is a share of requests, and more requests meet a burst than
// a lull. After a half-life a weight is halved.
BurstHistory Seen(BurstHistory history, double load_over_level, double elapsed_seconds);

// The load, over its level, that `share` of the load stayed below; from 1 to `most`. 1 if too
// little was seen. Rounded up to the end of the bin, by at most 2 %.
double BurstAt(const BurstHistory& history, double share, double most);

}  // namespace janus::controllers
