#pragma once

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
// Infinite when the utilisation is 1 or more.
double TimeToFirstToken(const PromptLoad& load, double percentile);

// The most prompt rows whose step, `seconds(rows)`, is within `target`; 0: none are.
template <class Seconds>
double PromptRowsInStep(double target, const Seconds& seconds) {
  constexpr double kMost = 1 << 24;
  return LargestBatch(kMost, target, seconds);
}

}  // namespace janus::controllers
