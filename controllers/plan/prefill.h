#pragma once

#include <span>

#include "controllers/plan/largest_batch.h"
#include "controllers/plan/performance.h"  // TimesOfStep: what prompts add to a step

namespace janus::controllers {

// How long a request waits for its first token. Pure.

// What a request waits for before its first token.
struct PromptLoad {
  double requests_per_second = 0;
  double prompt_tokens = 0;                // mean
  double prompt_squared_variation = 1;     // variance over squared mean
  double prompt_tokens_at_percentile = 0;  // length at the percentile asked for
  double servers = 1;                      // attention instances that compute prompts
  double rows_per_second_of_one = 0;       // prompt positions, one instance inside its budget
  double step_seconds = 0;                 // the step that ends the prompt and draws the token
};

// Share of the prompt capacity that is in use; 1 and more: the queue grows without end.
double PrefillUtilisation(const PromptLoad& load);

// Time to first token at `percentile` (0..1): the wait in an M/G/c queue (Sakasegawa 1977 for the
// mean, its tail taken as exponential), the prompt itself, and the step that draws the token.
// Infinite when the utilisation is 1 or more. The wait and the length are each taken at the
// percentile, so this is at the safe side of the time that so many requests keep.
double TimeToFirstToken(const PromptLoad& load, double percentile);

// The same where the lengths are known as a law (traffic.h), over load.prompt_tokens: the t for
// which P(W + L / r + s <= t) is `percentile`, with the wait W independent of the length L, r rows
// per second of one instance and s the step. W is 0 with probability 1 - q, else exponential, so
//
//   P(later than t) = mean over the law of L of  { 1                          if x < 0
//                                                { q exp(-x / w)              else,
//   x = t - s - L / r;  q = u^(sqrt(2(c+1)) - 1),  w = (1 + v) / (2 c (1 - u)) mean(L) / r
//
// with utilisation u, c instances and the squared variation v of L (all three of Sakasegawa's
// mean). One instance and exponential lengths make it the M/M/1 queue's exp(-(mu - lambda) t).
double TimeToFirstToken(const PromptLoad& load, std::span<const double> law, double percentile);

// The most prompt rows whose step, `seconds(rows)`, is within `target`; 0: none are.
template <class Seconds>
double PromptRowsInStep(double target, const Seconds& seconds) {
  constexpr double kMost = 1 << 24;
  return LargestBatch(kMost, target, seconds);
}

}  // namespace janus::controllers
