#include "controllers/plan/first_token.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/format.h"
#include "controllers/halving.h"
#include "controllers/plan/prefill.h"

namespace janus::controllers {

FirstToken FirstTokenOf(const PlanGoal& goal, const Stepper& stepper) {
  const Traffic& traffic = goal.traffic;
  const double target = goal.tpot_seconds;
  const double tokens = traffic.requests_per_second * traffic.output_tokens;
  const double prompts = traffic.requests_per_second * traffic.prompt_tokens;
  const auto load = [&](double decode_rows, double prompt_rows) {
    return StepLoad{decode_rows, stepper.context, prompt_rows, traffic.prompt_tokens / 2};
  };
  const auto step_at = [&](double t) { return stepper.seconds(load(tokens * t, prompts * t)); };
  FirstToken token;
  token.seconds = token.tpot_seconds = std::numeric_limits<double>::infinity();
  token.decoding = tokens * target;
  const double most = stepper.most_sequences / stepper.seconds(load(stepper.most_sequences, 0));
  if (tokens > most) {
    token.why_not =
        Format("the traffic needs %.0f tokens/s, the plan decodes %.0f at most", tokens, most);
    return token;
  }
  if (const double step = step_at(target); step > target) {
    token.why_not =
        Format("steps of %.4g ms have no room for what comes in that time, which takes %.4g ms",
               target * 1e3, step * 1e3);
    return token;
  }
  token.tpot_seconds = Halve({0, target}, 16, [&](double t) { return step_at(t) <= t; }).high;
  token.decoding = tokens * token.tpot_seconds;
  if (token.decoding > stepper.most_sequences) {
    token.why_not = Format("beside its prompts %.0f sequences decode, the plan takes %.0f",
                           std::ceil(token.decoding), stepper.most_sequences);
    return token;
  }
  token.prompt_rows = PromptRowsInStep(
      target, [&](double rows) { return stepper.seconds(load(token.decoding, rows)); });
  PromptLoad queue;
  queue.requests_per_second = traffic.requests_per_second;
  queue.prompt_tokens = traffic.prompt_tokens;
  queue.servers = stepper.servers;
  queue.rows_per_second_of_one = token.prompt_rows / stepper.servers / target;
  queue.step_seconds = target;
  token.seconds = TimeToFirstToken(queue, PromptLawOf(traffic), goal.ttft_percentile);
  if (std::isinf(token.seconds)) token.why_not = "prompts come faster than steps have room for";
  return token;
}

std::string WhyMissed(const PlanGoal& goal, const FirstToken& token) {
  if (goal.ttft_seconds <= 0 || token.seconds <= goal.ttft_seconds) return "";
  if (!token.why_not.empty()) return "no first token: " + token.why_not;
  return Format("first token %.3g s, %.3g s wanted", token.seconds, goal.ttft_seconds);
}

}  // namespace janus::controllers
