#pragma once

#include "controllers/plan/traffic.h"
#include "controllers/plan/whole.h"

namespace janus::controllers {

// MixServe's equations (III-B, eq. 5-11) for a whole model, to compare with our model. The paper
// gives proportions. The constants here are the data sheet's links, and kernel times are ours, as
// its eq. 4 has no constant. Where the paper is not explicit: sizes are bf16 bytes; tensor-parallel
// groups use a node's inner links, and expert-parallel groups that leave a node use the network; an
// all-reduce moves size / degree in each of its two halves (as in the text and Table I; eq. 2
// divides twice); a data-parallel group gets one prompt at a time; the queue of eq. 7 serves rounds
// of the whole batch, as it is never stable with single tokens.

struct MixServeTimes {
  double communication = 0;      // eq. 5, of a layer in decode
  double inter_token = 0;        // eq. 10
  double wait = 0;               // eq. 7; infinite: the queue grows without bound
  double first_token = 0;        // eq. 9
  double tokens_per_second = 0;  // eq. 11, of all sequences, with prompts
};

// Times for `batch` sequences that decode on one copy of `how`.
MixServeTimes MixServeTimesOf(const Setting& setting, const WholeConfiguration& how, double batch,
                              const Traffic& traffic);

}  // namespace janus::controllers
