#pragma once

#include <functional>
#include <string>

#include "controllers/plan/goal.h"
#include "controllers/plan/performance.h"

namespace janus::controllers {

// A plan under the goal's traffic: prompts in its steps, and the time to the first token.
struct FirstToken {
  double decoding = 0;      // sequences that the traffic keeps decoding (Little's law)
  double tpot_seconds = 0;  // at that load, with prompts in the steps
  double prompt_rows = 0;   // that also fit into a step of the TPOT target
  double seconds = 0;       // to the first token at goal.ttft_percentile; infinite: overloaded
  std::string why_not;      // why it is overloaded
};

// The steps of a plan.
struct Stepper {
  std::function<double(const StepLoad&)> seconds;  // of a step of all instances
  double context = 1;                              // keys of a sequence
  double most_sequences = 0;                       // decoding at once
  double servers = 1;                              // instances that compute prompts
};

// Steps settle at the TPOT t for which the load that arrives within t takes t: rate x output x t
// decode rows and rate x prompt x t prompt rows. The plan carries the traffic if t is within the
// target and the sequences are within most_sequences. Prompts then queue for the rows that are left
// in a step of the target (TimeToFirstToken in prefill.h, with the traffic's distribution of
// lengths).
FirstToken FirstTokenOf(const PlanGoal& goal, const Stepper& stepper);

// A quick check whether a step of the TPOT target may have room for `prompt_rows` beside the decode
// rows of the traffic. False only if FirstTokenOf would certainly find fewer. Takes a few steps,
// not tens.
bool MayHaveRoom(const PlanGoal& goal, const Stepper& stepper, double prompt_rows);

// Why the goal's first token is missed, in words: the plan does not carry the traffic, or the token
// is too late. Empty: it is not missed.
std::string WhyMissed(const PlanGoal& goal, const FirstToken& token);

}  // namespace janus::controllers
