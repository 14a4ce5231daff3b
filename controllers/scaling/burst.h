#pragma once

#include <vector>

namespace janus::controllers {

// How far a service's load rises above its level before instances asked for now would be ready,
// learned from the service itself: a thinned, bursty or small one needs more room than a large
// smooth one, and no constant fits both. A value; bounded.
struct BurstHistory {
  // Weight of what was seen, by bin of load over level: the first holds all that did not rise, the
  // last all that rose beyond the largest. Empty: nothing was seen.
  std::vector<double> weights;

  friend bool operator==(const BurstHistory&, const BurstHistory&) = default;
};

// The history after one more load, `elapsed_seconds` after the last. A load weighs as much as it
// is: the target is a share of requests, and more of them meet a burst than meet a lull. What is a
// half-life old weighs half.
BurstHistory Seen(BurstHistory history, double load_over_level, double elapsed_seconds);

// What `share` of the load stayed below, over its level: 1 and more, at most `most`; 1 while too
// little was seen to tell. Rounded up to the bin's end, 2 % at most.
double BurstAt(const BurstHistory& history, double share, double most);

}  // namespace janus::controllers
