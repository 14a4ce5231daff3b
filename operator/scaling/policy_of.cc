#include "operator/scaling/policy_of.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace janus::control {
namespace {

using controllers::ScalingPolicy;

controllers::LatencyTarget TargetOf(const LatencyTarget& target) {
  return {target.target_milliseconds / 1e3, ShareOf(target.percentile)};
}

controllers::SelectRule SelectOf(SelectPolicy select) {
  switch (select) {
    case SelectPolicy::kMin:
      return controllers::SelectRule::kMin;
    case SelectPolicy::kDisabled:
      return controllers::SelectRule::kDisabled;
    case SelectPolicy::kMax:
      break;
  }
  return controllers::SelectRule::kMax;
}

controllers::ForecastKind ForecastOf(Predictor predictor) {
  switch (predictor) {
    case Predictor::kEwma:
      return controllers::ForecastKind::kEwma;
    case Predictor::kSeasonal:
      return controllers::ForecastKind::kSeasonal;
    case Predictor::kNone:
      break;
  }
  return controllers::ForecastKind::kNone;
}

void FillBehavior(const std::optional<BehaviorRules>& rules, controllers::Behavior& behavior) {
  if (!rules) return;
  if (rules->stabilization_window_seconds) {
    behavior.stabilization_seconds = *rules->stabilization_window_seconds;
  }
  behavior.select = SelectOf(rules->select_policy);
  if (rules->policies.empty()) return;
  behavior.rules.clear();
  for (const BehaviorPolicy& policy : rules->policies) {
    const auto unit = policy.type == BehaviorPolicyType::kPods
                          ? controllers::RateRule::Unit::kPods
                          : controllers::RateRule::Unit::kPercent;
    behavior.rules.push_back({unit, policy.value, policy.period_seconds});
  }
}

void SetCount(int count, controllers::RolePolicy& role) {
  role.min = role.max = count;
  role.instances_per_pod = 1;
}

// `pools` have the replicas each.
void FillRole(const RoleSpec& spec, int pools, controllers::RolePolicy& role) {
  if (spec.replicas) return SetCount(pools * *spec.replicas, role);
  role.instances_per_pod = spec.instances_per_pod;
  if (!spec.scaling) return;
  if (spec.scaling->min_replicas) role.min = *spec.scaling->min_replicas;
  if (spec.scaling->max_replicas) role.max = *spec.scaling->max_replicas;
  if (!spec.scaling->behavior) return;
  FillBehavior(spec.scaling->behavior->scale_up, role.up);
  FillBehavior(spec.scaling->behavior->scale_down, role.down);
}

// A role whose count something else sets.
Status SetConstant(const RoleSpec& spec, std::string_view name, std::optional<int> external_pods,
                   controllers::RolePolicy& role) {
  const std::string path = "spec.roles." + std::string(name);
  if (spec.replicas == 0) {
    return InvalidArgument(path + ".replicas: is 0; a service without instances is not scaled");
  }
  if (spec.replicas || spec.is_slo()) return OkStatus();
  if (!external_pods) {
    return Unavailable(path +
                       ".scaling: is in mode External, and the count of its MoERoleScaler is "
                       "not known yet");
  }
  SetCount(*external_pods * spec.instances_per_pod, role);
  return OkStatus();
}

// GPUs of the standby pods of both roles.
int StandbyGpus(const MoEServiceSpec& spec) {
  const auto of_pod = [](const RoleSpec& role) {
    return role.instances_per_pod * role.tensor_parallel;
  };
  return MostPools(spec) * spec.scaling.standby *
         (of_pod(spec.roles.attention) + of_pod(spec.roles.experts));
}

Status SetMostGpus(const MoEServiceSpec& spec, const PolicyLimits& limits, ScalingPolicy& policy) {
  if (policy.max_gpus > 0) {
    const int standby = StandbyGpus(spec);
    if (standby > 0 && standby + 2 > policy.max_gpus) {
      return InvalidArgument("spec.scaling.standby: is " + std::to_string(spec.scaling.standby) +
                             ", for which " + std::to_string(standby) +
                             " of spec.scaling.maxGPUs " + std::to_string(policy.max_gpus) +
                             " GPUs are kept; at least 2 must be left to serve: lower standby or "
                             "raise maxGPUs");
    }
    policy.max_gpus -= standby;
  }
  if (limits.most_instances > 0) {
    const int most = std::max(limits.most_instances, 2);
    policy.max_gpus = policy.max_gpus > 0 ? std::min(policy.max_gpus, most) : most;
  }
  return OkStatus();
}

// Times that no field sets. Those of fields are as the user wrote them.
void PutOnClock(double times_faster, ScalingPolicy& policy) {
  for (double* const seconds :
       {&policy.backoff_seconds, &policy.start_seconds, &policy.warm_up_seconds,
        &policy.recovery_seconds, &policy.online.half_life_seconds}) {
    *seconds /= times_faster;
  }
  policy.times_faster = times_faster;
}

}  // namespace

Status FillPolicy(const MoEServiceSpec& spec, ScalingPolicy& policy) {
  if (!spec.slo.tpot) {
    return InvalidArgument(
        "spec.slo.tpot: is missing; scaling needs a target to keep: set "
        "spec.slo.tpot.targetMilliseconds");
  }
  policy.tpot = TargetOf(*spec.slo.tpot);
  if (spec.slo.ttft) policy.ttft = TargetOf(*spec.slo.ttft);
  if (UsesPools(spec)) {
    policy.min_pools = LeastPools(spec);
    policy.max_pools = MostPools(spec);
  }
  FillRole(spec.roles.attention, LeastPools(spec), policy.attention);
  FillRole(spec.roles.experts, LeastPools(spec), policy.experts);
  const auto ratio = [](const RatioBound& bound) {
    return controllers::Ratio{bound.experts, bound.attention};
  };
  if (spec.ratio.min) policy.ratio_min = ratio(*spec.ratio.min);
  if (spec.ratio.max) policy.ratio_max = ratio(*spec.ratio.max);
  policy.max_gpus = spec.scaling.max_gpus.value_or(0);
  policy.max_batch_per_attention = spec.roles.attention.max_batch_size;
  policy.interval_seconds = spec.scaling.interval_seconds;
  policy.pending_timeout_seconds = spec.scaling.pending_timeout_seconds;
  policy.forecast.kind = ForecastOf(spec.scaling.predictor);
  return OkStatus();
}

Result<ScalingPolicy> PolicyOf(const MoEServiceSpec& spec, const PolicyLimits& limits) {
  ScalingPolicy policy;
  policy.min_pools = LeastPools(spec);
  policy.max_pools = MostPools(spec);
  policy.attention.max = policy.max_pools * kMostAttentionInstances;
  policy.experts.max = policy.max_pools * kMostExpertInstances;
  JANUS_RETURN_IF_ERROR(FillPolicy(spec, policy));
  policy.is_advisory = spec.scaling.advisory;
  const RolesSpec& roles = spec.roles;
  JANUS_RETURN_IF_ERROR(
      SetConstant(roles.attention, "attention", limits.external_attention, policy.attention));
  JANUS_RETURN_IF_ERROR(
      SetConstant(roles.experts, "experts", limits.external_experts, policy.experts));
  JANUS_RETURN_IF_ERROR(SetMostGpus(spec, limits, policy));
  if (spec.timed) PutOnClock(spec.timed->time_scale, policy);
  if (Status status = Validate(policy); !status.ok()) {
    return std::move(status).Annotate("the scaling policy of this spec");
  }
  return policy;
}

}  // namespace janus::control
