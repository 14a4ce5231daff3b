#pragma once

#include "controllers/plan/traffic.h"
#include "controllers/plan/whole.h"

namespace janus::controllers {

// What MixServe (III-B, eq. 5-11) reckons of a whole model, to stand beside what this model says.
// The paper gives proportions; constants here are the data sheet's links, and kernels are ours (its
// eq. 4 has no constant to take). Where a symbol is not said: sizes are bf16 bytes; a tensor-
// parallel group's links are a node's own, expert-parallel ones the network where they leave a
// node; an all-reduce moves size / degree in each of its two halves (the text, and Table I; eq. 2
// divides twice); prompts come one to a data-parallel group; the queue of eq. 7 serves rounds of
// the whole batch, since with single tokens it is never stable.

struct MixServeTimes {
  double communication = 0;      // eq. 5, of a layer in decode
  double inter_token = 0;        // eq. 10
  double wait = 0;               // eq. 7; infinite where the queue grows without end
  double first_token = 0;        // eq. 9
  double tokens_per_second = 0;  // eq. 11, of all sequences, prompts counted
};

// `batch` sequences that decode on one copy of `how`.
MixServeTimes MixServeTimesOf(const Setting& setting, const WholeConfiguration& how, double batch,
                              const Traffic& traffic);

}  // namespace janus::controllers
