#pragma once

#include "controllers/plan/performance.h"

namespace janus::controllers {

// Prompts in the performance model: what they add to a step they ride along in, and how long a
// request waits for its first token. Pure.

// The rows of one step, all attention instances together; fractions are expected values.
struct StepLoad {
  double decode_rows = 0;  // sequences that decode
  double context = 1;      // mean keys of one of them
  double prompt_rows = 0;  // prompt positions computed in the same step
  double prompt_keys = 0;  // mean keys such a position attends to: half a prompt without a prefix

  friend bool operator==(const StepLoad&, const StepLoad&) = default;
};

// Where the time of a step goes, all layers and micro-batches; seconds. The first three are busy
// times of the busiest instance and both directions of the exchange; they overlap, so `step` is not
// their sum.
struct StepTimes {
  double attention = 0;  // kernels of an attention instance: dense layers and output head too
  double experts = 0;    // kernels of an expert instance
  double exchange = 0;   // rows out and contributions back
  double step = 0;       // from one step's begin to the next

  friend bool operator==(const StepTimes&, const StepTimes&) = default;
};

// A step in which decode rows and prompt rows go through every layer together. Without prompt rows
// `step` is TimePerOutputToken of that batch and context (setting.context is not looked at).
// Prompt positions share the weights that are read anyway and add arithmetic: projections, keys in
// the expanded form (latent models too: their prompts do not run absorbed), expert rows and bytes.
StepTimes TimesOfStep(const Setting& setting, const Configuration& how, const StepLoad& load);

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

}  // namespace janus::controllers
