#pragma once

#include <optional>
#include <string>
#include <vector>

namespace janus::controllers {

// Published results of separating attention and experts ("AFD"), gains and losses, each beside the
// performance model's result for the same setting. Devices without calibration are converted by
// data sheet. All sequences have one length, as in these measurements.

// Tokens per second and GPU.
struct SeparationRates {
  double apart = 0;
  double together = 0;
};

struct SeparationResult {
  std::string setting;   // unique name
  double published = 0;  // throughput separated over together: a gain is above 1
  double ours = 0;
  std::optional<SeparationRates> published_rates;  // if published
  std::optional<SeparationRates> our_rates;
  std::string taken;  // assumptions where the publication is silent
  std::string why;    // why the sign differs; empty: it does not

  bool IsSameSign() const { return (published > 1) == (ours > 1); }
};

std::vector<SeparationResult> PublishedSeparations();

// FastAFD's sweep of attention trays per expert tray at one context: the best number tried, and the
// relative result of 16.
struct TraySweep {
  double context = 0;
  int published_best = 0;
  double published_of_best = 0;
  int our_best = 0;
  double our_of_best = 0;
  double our_at_theirs = 0;  // of the published best, over our best
};

// By ascending context.
std::vector<TraySweep> PublishedTraySweeps();

}  // namespace janus::controllers
