#pragma once

#include <span>
#include <vector>

namespace janus::controllers {

// What requests are like that a plan is to serve.
struct Traffic {
  double requests_per_second = 0;  // 0: not known
  double prompt_tokens = 0;        // mean
  double output_tokens = 1;        // mean
  // Prompt lengths over their mean, equally likely, ascending; empty: exponential, the law of a
  // length of which no more than its mean is known.
  std::vector<double> prompt_law = {};
};

// The law that holds: the traffic's own, or the exponential one. Borrows.
std::span<const double> PromptLawOf(const Traffic& traffic);

// The law of measured lengths (> 0, not empty), as at most 256 equally likely ones.
std::vector<double> LawOfLengths(std::vector<double> lengths);

// Variance over squared mean.
double SquaredVariation(std::span<const double> law);

}  // namespace janus::controllers
