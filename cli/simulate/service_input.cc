#include "cli/simulate/service_input.h"

#include "cli/plan/service_spec.h"

namespace janus::cli {
namespace {

using controllers::LatencyTarget;
using controllers::ScalingPolicy;

LatencyTarget TargetOf(const control::LatencyTarget& target) {
  return {target.target_milliseconds / 1e3, ShareOf(target.percentile)};
}

void FillBehavior(const std::optional<control::BehaviorRules>& rules,
                  controllers::Behavior& behavior) {
  if (!rules) return;
  if (rules->stabilization_window_seconds) {
    behavior.stabilization_seconds = *rules->stabilization_window_seconds;
  }
  switch (rules->select_policy) {
    case control::SelectPolicy::kMax:
      behavior.select = controllers::SelectRule::kMax;
      break;
    case control::SelectPolicy::kMin:
      behavior.select = controllers::SelectRule::kMin;
      break;
    case control::SelectPolicy::kDisabled:
      behavior.select = controllers::SelectRule::kDisabled;
      break;
  }
  if (rules->policies.empty()) return;
  behavior.rules.clear();
  for (const control::BehaviorPolicy& policy : rules->policies) {
    const auto unit = policy.type == control::BehaviorPolicyType::kPods
                          ? controllers::RateRule::Unit::kPods
                          : controllers::RateRule::Unit::kPercent;
    behavior.rules.push_back({unit, policy.value, policy.period_seconds});
  }
}

void FillRole(const control::RoleSpec& spec, controllers::RolePolicy& role) {
  role.instances_per_pod = spec.instances_per_pod;
  if (spec.replicas) role.min = role.max = *spec.replicas;
  if (!spec.scaling) return;
  if (spec.scaling->min_replicas) role.min = *spec.scaling->min_replicas;
  if (spec.scaling->max_replicas) role.max = *spec.scaling->max_replicas;
  if (!spec.scaling->behavior) return;
  FillBehavior(spec.scaling->behavior->scale_up, role.up);
  FillBehavior(spec.scaling->behavior->scale_down, role.down);
}

}  // namespace

Status FillScaling(const control::MoEServiceSpec& spec, ScalingPolicy& scaling) {
  if (!spec.slo.tpot) {
    return InvalidArgument("spec.slo.tpot is missing; a simulation needs a target to judge by");
  }
  scaling.tpot = TargetOf(*spec.slo.tpot);
  if (spec.slo.ttft) scaling.ttft = TargetOf(*spec.slo.ttft);
  FillRole(spec.roles.attention, scaling.attention);
  FillRole(spec.roles.experts, scaling.experts);
  const auto ratio = [](const control::RatioBound& bound) {
    return controllers::Ratio{bound.experts, bound.attention};
  };
  if (spec.ratio.min) scaling.ratio_min = ratio(*spec.ratio.min);
  if (spec.ratio.max) scaling.ratio_max = ratio(*spec.ratio.max);
  scaling.max_gpus = spec.scaling.max_gpus.value_or(0);
  scaling.max_batch_per_attention = spec.roles.attention.max_batch_size;
  scaling.interval_seconds = spec.scaling.interval_seconds;
  scaling.pending_timeout_seconds = spec.scaling.pending_timeout_seconds;
  switch (spec.scaling.predictor) {
    case control::Predictor::kNone:
      scaling.forecast.kind = controllers::ForecastKind::kNone;
      break;
    case control::Predictor::kEwma:
      scaling.forecast.kind = controllers::ForecastKind::kEwma;
      break;
    case control::Predictor::kSeasonal:
      scaling.forecast.kind = controllers::ForecastKind::kSeasonal;
      break;
  }
  return OkStatus();
}

Status ReadServiceInto(const std::string& file, SimulateOptions& options) {
  JANUS_ASSIGN_OR_RETURN(const control::MoEServiceSpec spec, ReadServiceSpec(file));
  if (Status status = FillScaling(spec, options.scaling); !status.ok()) {
    return std::move(status).Annotate(file);
  }
  FillSetting(spec, options.setting);
  return OkStatus();
}

}  // namespace janus::cli
