#pragma once

#include <functional>
#include <string>

#include "controllers/plan/goal.h"
#include "controllers/plan/performance.h"

namespace janus::controllers {

// What the goal's traffic makes of a plan: prompts in its steps, and when first tokens come.
struct FirstToken {
  double decoding = 0;      // sequences that the traffic keeps decoding (Little)
  double tpot_seconds = 0;  // at which it does so, its prompts in the steps
  double prompt_rows = 0;   // that a step of the TPOT target has room for beside these
  double seconds = 0;       // to the first token at goal.ttft_percentile; infinite: not carried
  std::string why_not;      // not carried: why
};

// How a plan steps.
struct Stepper {
  std::function<double(const StepLoad&)> seconds;  // of a step, all instances together
  double context = 1;                              // keys of a sequence
  double most_sequences = 0;                       // at once
  double servers = 1;                              // instances that compute prompts
};

// Steps settle at the TPOT t at which the load that arrives within t takes t: rate x output x t
// rows that decode, rate x prompt x t rows of prompts. The traffic is carried where t is within the
// target and the sequences within most_sequences. Prompts then queue for the rows that a step of
// the target has left (TimeToFirstToken in prefill.h, with the traffic's law of lengths).
FirstToken FirstTokenOf(const PlanGoal& goal, const Stepper& stepper);

// Whether a step of the TPOT target may have room for so many prompt rows beside what the traffic
// keeps decoding: false where FirstTokenOf would surely find fewer. Takes a few steps, not tens.
bool MayHaveRoom(const PlanGoal& goal, const Stepper& stepper, double prompt_rows);

// What of the goal's first token it misses, in words: that it does not carry the traffic, or that
// the token comes later than is asked for. Empty: nothing.
std::string WhyMissed(const PlanGoal& goal, const FirstToken& token);

}  // namespace janus::controllers
