#include "controllers/scaling/policy.h"

#include <cmath>
#include <initializer_list>
#include <string>

namespace janus::controllers {
namespace {

Status Wrong(const std::string& field, const std::string& value, const char* want) {
  return InvalidArgument("scaling: " + field + " is " + value + "; want " + want);
}

Status CheckTarget(const std::string& field, const LatencyTarget& target) {
  if (!std::isfinite(target.seconds) || target.seconds <= 0) {
    return Wrong(field + ".seconds", std::to_string(target.seconds), "a positive latency");
  }
  if (!(target.percentile > 0 && target.percentile < 1)) {
    return Wrong(field + ".percentile", std::to_string(target.percentile),
                 "a share of requests between 0 and 1");
  }
  return OkStatus();
}

Status CheckBehavior(const std::string& field, const Behavior& behavior) {
  if (!std::isfinite(behavior.stabilization_seconds) || behavior.stabilization_seconds < 0 ||
      behavior.stabilization_seconds > 3600) {
    return Wrong(field + ".stabilization_seconds", std::to_string(behavior.stabilization_seconds),
                 "0 to 3600");
  }
  for (const RateRule& rule : behavior.rules) {
    if (rule.value < 1) return Wrong(field + ".rules.value", std::to_string(rule.value), "over 0");
    if (rule.period_seconds < 1 || rule.period_seconds > 1800) {
      return Wrong(field + ".rules.period_seconds", std::to_string(rule.period_seconds),
                   "1 to 1800");
    }
  }
  return OkStatus();
}

Status CheckRole(const std::string& field, const RolePolicy& role) {
  if (role.min < 1) return Wrong(field + ".min", std::to_string(role.min), "at least 1");
  if (role.max < role.min) {
    return Wrong(field + ".max", std::to_string(role.max), "at least the minimum");
  }
  if (role.instances_per_pod < 1) {
    return Wrong(field + ".instances_per_pod", std::to_string(role.instances_per_pod),
                 "at least 1");
  }
  if (role.max / role.instances_per_pod * role.instances_per_pod < role.min) {
    return Wrong(field + ".instances_per_pod", std::to_string(role.instances_per_pod),
                 "one of which a multiple lies between the minimum and the maximum");
  }
  JANUS_RETURN_IF_ERROR(CheckBehavior(field + ".up", role.up));
  return CheckBehavior(field + ".down", role.down);
}

}  // namespace

Behavior DefaultScaleUp() {
  return {0, SelectRule::kMax, {}};
}

Behavior DefaultScaleDown() {
  return {300, SelectRule::kMax, {{RateRule::Unit::kPercent, 100, 15}}};
}

Status Validate(const ScalingPolicy& policy) {
  JANUS_RETURN_IF_ERROR(CheckTarget("tpot", policy.tpot));
  if (policy.ttft) JANUS_RETURN_IF_ERROR(CheckTarget("ttft", *policy.ttft));
  JANUS_RETURN_IF_ERROR(CheckRole("attention", policy.attention));
  JANUS_RETURN_IF_ERROR(CheckRole("experts", policy.experts));
  for (const auto& [field, ratio] :
       {std::pair("ratio_min", &policy.ratio_min), {"ratio_max", &policy.ratio_max}}) {
    if (*ratio && ((*ratio)->experts < 1 || (*ratio)->attention < 1)) {
      return Wrong(field,
                   std::to_string((*ratio)->experts) + ":" + std::to_string((*ratio)->attention),
                   "two positive integers");
    }
  }
  if (policy.max_gpus < 0) {
    return Wrong("max_gpus", std::to_string(policy.max_gpus), "a number, or 0 for no limit");
  }
  if (policy.min_pools < 1) {
    return Wrong("min_pools", std::to_string(policy.min_pools), "at least 1");
  }
  if (policy.max_pools < policy.min_pools) {
    return Wrong("max_pools", std::to_string(policy.max_pools), "at least min_pools");
  }
  if (policy.max_batch_per_attention < 1) {
    return Wrong("max_batch_per_attention", std::to_string(policy.max_batch_per_attention),
                 "at least 1");
  }
  struct Positive {
    const char* field;
    double value;
  };
  for (const auto& [field, value] : {Positive{"interval_seconds", policy.interval_seconds},
                                     {"pending_timeout_seconds", policy.pending_timeout_seconds},
                                     {"backoff_seconds", policy.backoff_seconds},
                                     {"start_seconds", policy.start_seconds},
                                     {"recovery_seconds", policy.recovery_seconds},
                                     {"forecast.season_seconds", policy.forecast.season_seconds}}) {
    if (!std::isfinite(value) || value <= 0) {
      return Wrong(field, std::to_string(value), "a positive time");
    }
  }
  if (!std::isfinite(policy.warm_up_seconds) || policy.warm_up_seconds < 0) {
    return Wrong("warm_up_seconds", std::to_string(policy.warm_up_seconds), "a time");
  }
  if (!std::isfinite(policy.times_faster) || policy.times_faster < 1) {
    return Wrong("times_faster", std::to_string(policy.times_faster), "at least 1");
  }
  if (!(policy.most_burst >= 1 && policy.most_burst <= 4)) {
    return Wrong("most_burst", std::to_string(policy.most_burst), "1 to 4");
  }
  if (!(policy.aim > 0 && policy.aim <= 1)) {
    return Wrong("aim", std::to_string(policy.aim), "a share over 0 and at most 1");
  }
  if (policy.forecast.bins < 1 || policy.forecast.bins > 2016) {
    return Wrong("forecast.bins", std::to_string(policy.forecast.bins), "1 to 2016");
  }
  return OkStatus();
}

}  // namespace janus::controllers
