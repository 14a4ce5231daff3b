#include "operator/records/replay.h"

#include <chrono>
#include <utility>

#include "operator/scaling/prediction_basis.h"
#include "operator/scaling/predictors.h"

namespace janus::control {
namespace {

controllers::ScalingPolicy Changed(controllers::ScalingPolicy policy, const ReplayChange& change) {
  if (change.tpot_seconds) policy.tpot.seconds = *change.tpot_seconds;
  if (change.ttft_seconds) {
    if (!policy.ttft) policy.ttft = controllers::LatencyTarget{};
    policy.ttft->seconds = *change.ttft_seconds;
  }
  if (change.max_attention) policy.attention.max = *change.max_attention;
  if (change.max_experts) policy.experts.max = *change.max_experts;
  if (change.max_gpus) policy.max_gpus = *change.max_gpus;
  return policy;
}

}  // namespace

janus::Result<Replayed> Replay(const std::vector<RecordedTick>& ticks, const ReplayChange& change) {
  Replayed out;
  Predictors predictors;
  controllers::Memory memory;
  bool has_begun = false;
  const PredictionBasis* basis = nullptr;
  for (const RecordedTick& tick : ticks) {
    if (tick.begins) memory = {};
    if (basis != nullptr) ForgetLearned(*basis, tick.setting->basis, memory);
    basis = &tick.setting->basis;
    has_begun = has_begun || tick.begins;
    const double since_first = tick.world.time_seconds - ticks.front().world.time_seconds;
    if (!has_begun && since_first < kSettles.count()) ++out.settling;
    PredictorInputs inputs = tick.setting->inputs;
    const controllers::ScalingPolicy policy = Changed(tick.setting->policy, change);
    if (change.any()) JANUS_RETURN_IF_ERROR(controllers::Validate(policy));
    if (change.max_attention) inputs.options.max_attention = *change.max_attention;
    if (change.max_experts) inputs.options.max_experts = *change.max_experts;
    JANUS_ASSIGN_OR_RETURN(const controllers::Predictor predictor, predictors.Get(inputs));
    controllers::Outcome outcome =
        controllers::Decide(predictor, policy, tick.world, std::move(memory));
    memory = std::move(outcome.memory);
    DecidedLine replayed = DecidedOf(outcome.decision, WallTime());
    replayed.time_seconds = tick.decided.time_seconds;
    out.ticks.push_back({tick.decided, std::move(replayed)});
  }
  return out;
}

}  // namespace janus::control
