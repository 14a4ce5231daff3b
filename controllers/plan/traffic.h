#pragma once

#include <span>
#include <vector>

namespace janus::controllers {

// The requests that a plan must serve.
struct Traffic {
  double requests_per_second = 0;  // 0: not known
  double prompt_tokens = 0;        // mean
  double output_tokens = 1;        // mean
  // Prompt lengths over their mean: equally likely values, ascending. Empty: exponential, for
  // lengths of which only the mean is known.
  std::vector<double> prompt_law = {};
};

// The distribution to use: the traffic's, or the exponential one. Borrows.
std::span<const double> PromptLawOf(const Traffic& traffic);

// The distribution of measured lengths (> 0, not empty), as at most 256 equally likely values.
std::vector<double> LawOfLengths(std::vector<double> lengths);

// Variance over squared mean.
double SquaredVariation(std::span<const double> law);

}  // namespace janus::controllers
