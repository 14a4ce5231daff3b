#include "controllers/plan/first_token.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/format.h"
#include "controllers/halving.h"
#include "controllers/plan/prefill.h"

namespace janus::controllers {
namespace {

// The goal's traffic, as loads of a step.
struct Arriving {
  Arriving(const Traffic& traffic, const Stepper& stepper)
      : traffic(traffic),
        stepper(stepper),
        tokens(traffic.requests_per_second * traffic.output_tokens),
        prompts(traffic.requests_per_second * traffic.prompt_tokens) {}

  double Step(double decode_rows, double prompt_rows) const {
    return stepper.seconds({decode_rows, stepper.context, prompt_rows, traffic.prompt_tokens / 2});
  }
  // The step that has the load which arrives within t.
  double StepAt(double t) const { return Step(tokens * t, prompts * t); }

  const Traffic& traffic;
  const Stepper& stepper;
  double tokens;   // per second, decoded
  double prompts;  // per second, of prompts
};

}  // namespace

bool MayHaveRoom(const PlanGoal& goal, const Stepper& stepper, double prompt_rows) {
  const Arriving arriving(goal.traffic, stepper);
  // Approaches from below the TPOT at which load and step agree.
  double tpot = 0;
  for (int i = 0; i < 2; ++i) tpot = arriving.StepAt(tpot);
  return tpot <= goal.tpot_seconds &&
         arriving.Step(arriving.tokens * tpot, prompt_rows) <= goal.tpot_seconds;
}

FirstToken FirstTokenOf(const PlanGoal& goal, const Stepper& stepper) {
  const Traffic& traffic = goal.traffic;
  const double target = goal.tpot_seconds;
  const Arriving arriving(traffic, stepper);
  const double tokens = arriving.tokens;
  FirstToken token;
  token.seconds = token.tpot_seconds = std::numeric_limits<double>::infinity();
  token.decoding = tokens * target;
  const double most = stepper.most_sequences / arriving.Step(stepper.most_sequences, 0);
  if (tokens > most) {
    token.why_not =
        Format("the traffic needs %.0f tokens/s, and the plan decodes at most %.0f", tokens, most);
    return token;
  }
  if (const double step = arriving.StepAt(target); step > target) {
    token.why_not = Format(
        "a step of %.4g ms is too short for the requests that arrive in it, which take %.4g ms",
        target * 1e3, step * 1e3);
    return token;
  }
  token.tpot_seconds = Narrow({0, target}, target / (1 << 16), [&](double t) {
                         return arriving.StepAt(t) - t;
                       }).high;
  token.decoding = tokens * token.tpot_seconds;
  if (token.decoding > stepper.most_sequences) {
    token.why_not =
        Format("%.0f sequences decode while prompts are computed, and the plan holds %.0f",
               std::ceil(token.decoding), stepper.most_sequences);
    return token;
  }
  token.prompt_rows =
      PromptRowsInStep(target, [&](double rows) { return arriving.Step(token.decoding, rows); });
  PromptLoad queue;
  queue.requests_per_second = traffic.requests_per_second;
  queue.prompt_tokens = traffic.prompt_tokens;
  queue.servers = stepper.servers;
  queue.rows_per_second_of_one = token.prompt_rows / stepper.servers / target;
  queue.step_seconds = target;
  token.seconds = TimeToFirstToken(queue, PromptLawOf(traffic), goal.ttft_percentile);
  if (std::isinf(token.seconds))
    token.why_not = "prompts arrive faster than steps can compute them";
  return token;
}

std::string WhyMissed(const PlanGoal& goal, const FirstToken& token) {
  if (!token.why_not.empty()) return "no first token: " + token.why_not;
  if (goal.ttft_seconds <= 0 || token.seconds <= goal.ttft_seconds) return "";
  return Format("the first token takes %.3g s, the target is %.3g s", token.seconds,
                goal.ttft_seconds);
}

}  // namespace janus::controllers
