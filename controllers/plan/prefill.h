#pragma once

#include <span>

#include "controllers/plan/largest_batch.h"
#include "controllers/plan/performance.h"  // TimesOfStep: what prompts add to a step

namespace janus::controllers {

// How long a request waits for its first token. Pure.

// The load that delays a first token.
struct PromptLoad {
  double requests_per_second = 0;
  double prompt_tokens = 0;                // mean
  double prompt_squared_variation = 1;     // variance over squared mean
  double prompt_tokens_at_percentile = 0;  // length at the requested percentile
  double servers = 1;                      // attention instances that compute prompts
  double rows_per_second_of_one = 0;       // prompt positions that one instance computes within its
                                           // budget
  double step_seconds = 0;                 // the step that ends the prompt and samples the token
};

// The share of prompt capacity in use. At 1 or more the queue grows without bound.
double PrefillUtilisation(const PromptLoad& load);

// Time to first token at `percentile` (0..1): the wait in an M/G/c queue (mean from Sakasegawa
// 1977, tail taken as exponential), the prompt itself, and the step that samples the token.
// Infinite if the utilisation is 1 or more. Wait and length are each taken at the percentile, so
// the result is an upper estimate.
double TimeToFirstToken(const PromptLoad& load, double percentile);

// The same for a known distribution of lengths (traffic.h), relative to load.prompt_tokens. It is
// the t with P(W + L / r + s <= t) = `percentile`. The wait W is independent of the length L, r is
// the rows per second of one instance, s is the step. W is 0 with probability 1 - q, otherwise
// exponential:
//
//   P(later than t) = mean over L of  { 1                          if x < 0
//                                     { q exp(-x / w)              otherwise,
//   x = t - s - L / r;  q = u^(sqrt(2(c+1)) - 1),  w = (1 + v) / (2 c (1 - u)) mean(L) / r
//
// with utilisation u, c instances and the squared variation v of L (all three from Sakasegawa's
// mean). For one instance and exponential lengths this is exp(-(mu - lambda) t), the M/M/1 queue.
double TimeToFirstToken(const PromptLoad& load, std::span<const double> law, double percentile);

// The most prompt rows for which `seconds(rows)` is within `target`; 0: no prompt row fits.
template <class Seconds>
double PromptRowsInStep(double target, const Seconds& seconds) {
  constexpr double kMost = 1 << 24;
  return LargestBatch(kMost, target, seconds);
}

}  // namespace janus::controllers
