#pragma once

#include <optional>
#include <string>
#include <vector>

namespace janus::controllers {

// Published results of running attention and experts apart ("AFD"), gains and losses, each beside
// what the performance model makes of the same setting. Devices that the calibration has not seen
// are carried over by data sheet; all sequences of one length, as these measurements have them.

// Tokens per second and GPU.
struct SeparationRates {
  double apart = 0;
  double together = 0;
};

struct SeparationResult {
  std::string setting;   // names it, as no other
  double published = 0;  // throughput apart over together: a gain is above 1
  double ours = 0;
  std::optional<SeparationRates> published_rates;  // behind the two, where they are published
  std::optional<SeparationRates> our_rates;
  std::string taken;  // what the publication leaves open
  std::string why;    // the sign differs; empty where it does not

  bool IsSameSign() const { return (published > 1) == (ours > 1); }
};

std::vector<SeparationResult> PublishedSeparations();

// FastAFD's sweep of attention trays for one of experts at a context: the best number of those
// tried, and what 16 give of it.
struct TraySweep {
  double context = 0;
  int published_best = 0;
  double published_of_best = 0;
  int our_best = 0;
  double our_of_best = 0;
};

// Contexts ascend.
std::vector<TraySweep> PublishedTraySweeps();

}  // namespace janus::controllers
