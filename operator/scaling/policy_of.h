#pragma once

#include <optional>

#include "common/status.h"
#include "controllers/scaling/policy.h"
#include "operator/api/moeservice.h"

namespace janus::control {

// What a MoEService asks of scaling, as controllers::Decide reads it. Pure, so thread-safe.

// Limits that the spec does not contain.
struct PolicyLimits {
  // Of a role in mode External: the pods that its MoERoleScaler asks for, within the spec's bounds
  // (reconcile/spec/external_counts.h). Nothing: not known yet.
  std::optional<int> external_attention = std::nullopt;
  std::optional<int> external_experts = std::nullopt;
  // Instances of both roles together that have a place to run: on one machine its cores.
  // 0: no limit.
  int most_instances = 0;
};

// Sets in `policy` what the spec says: targets, counts, pods, behaviors, ratio, limits, forecast
// and sequences. A field that the spec leaves out stays as it is in `policy`. `scaling.advisory`
// stays too: a simulation shows what an advisory service would do. A role with replicas has min =
// max = replicas of all pools, and no granule. InvalidArgument: the spec has no TPOT target.
Status FillPolicy(const MoEServiceSpec& spec, controllers::ScalingPolicy& policy);

// The policy of a running service, with the defaults of docs/api.md. Roles that the decision does
// not scale (replicas, or mode External) are constants: min = max. Standby pods count against
// maxGPUs. Times that no field sets are divided by spec.timed.timeScale.
//
// InvalidArgument, with the path: no TPOT target, a role with 0 replicas, or no GPU is left beside
// the standby pods. Unavailable: the count of a role in mode External is not known yet.
Result<controllers::ScalingPolicy> PolicyOf(const MoEServiceSpec& spec,
                                            const PolicyLimits& limits = {});

}  // namespace janus::control
