#include "operator/reconcile/children/scalers.h"

#include <algorithm>
#include <utility>

#include "operator/api/topology_enums.h"
#include "operator/kube/object.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/pods/pods.h"
#include "operator/reconcile/status/conditions.h"

namespace janus::control {
namespace {

Condition ReadyOf(const StatusFacts& seen, Role role) {
  const std::string_view type = role == Role::kAttention ? "AttentionReady" : "ExpertsReady";
  const RoleStatus& status = seen.Of(role);
  Condition out;
  for (Condition& one : ConditionsOf(seen)) {
    if (one.type == type) out = std::move(one);
  }
  out.type = "Ready";
  const auto say = [&](ConditionStatus is, const Cause& finding) {
    out.status = is;
    out.reason = finding.reason;
    out.message = finding.message;
  };
  if (seen.invalid) {
    say(ConditionStatus::kFalse, seen.invalid);
  } else if (status.limit && out.reason == "AsWanted") {
    say(IsBound(status.limit) ? ConditionStatus::kTrue : ConditionStatus::kFalse, status.limit);
  }
  return out;
}

}  // namespace

bool IsExternal(const RoleSpec& role) {
  return !role.replicas && role.scaling && role.scaling->mode == ScalingMode::kExternal;
}

std::string WhatIsAsked(const MoEService& service, Role role, int count) {
  return kRoleScalers.kind + " " + RoleObjectName(service.metadata.name, role) + " asks for " +
         std::to_string(count);
}

BoundedCount BoundBySpec(const MoEService& service, Role role, int asked) {
  const RoleScaling& scaling = *SpecOf(service, role).scaling;
  const int per_pod = SpecOf(service, role).instances_per_pod;
  const std::string path = "spec.roles." + std::string(ToString(role)) + ".scaling.";
  const auto limit = [&](const char* reason, const char* field, int bound, int pods) {
    return BoundedCount{pods * per_pod,
                        {reason, WhatIsAsked(service, role, asked) + "; " + path + field + " is " +
                                     std::to_string(bound)}};
  };
  const int least = scaling.min_replicas.value_or(1);
  const int least_pods = PodCount(least, per_pod);
  if (asked < least_pods) return limit("AtMin", "minReplicas", least, least_pods);
  const int most = scaling.max_replicas.value_or(role == Role::kAttention ? kMostAttentionInstances
                                                                          : kMostExpertInstances);
  const int most_pods = std::max(most / per_pod, least_pods);
  if (asked > most_pods) return limit("AtMax", "maxReplicas", most, most_pods);
  return {asked * per_pod};
}

Child ScalerOf(const MoEService& service, Role role, int instances) {
  Node object = Object({{"apiVersion", Text(kRoleScalers.ApiVersion())},
                        {"kind", Text(kRoleScalers.kind)},
                        {"spec", Object({{"service", Text(service.metadata.name)},
                                         {"role", Text(ToString(role))}})}});
  MakeOwned(service, RoleObjectName(service.metadata.name, role), LabelsOf(service, ToString(role)),
            object);
  Node first = object;
  const int pods = PodCount(instances, SpecOf(service, role).instances_per_pod);
  SetAt(first, {"spec", "replicas"}, Node::Integer(pods));
  return {&kRoleScalers, std::move(object), std::move(first)};
}

int AskedOf(const Node& scaler) {
  return static_cast<int>(IntegerAt(scaler, {"spec", "replicas"}).value_or(0));
}

Node WithScalerStatus(const Node& scaler, const StatusFacts& seen, Role role) {
  const RoleStatus& status = seen.Of(role);
  const int64_t generation = IntegerAt(scaler, {"metadata", "generation"}).value_or(0);
  Condition ready = ReadyOf(seen, role);
  ready.observed_generation = generation;
  Node out = scaler;
  SetAt(out, {"status", "observedGeneration"}, Node::Integer(generation));
  SetAt(out, {"status", "replicas"}, Node::Integer(status.committed_pods));
  SetAt(out, {"status", "selector"}, Text(status.selector));
  SetAt(out, {"status", "conditions"},
        WriteConditions(Transitioned(ReadConditions(scaler), {std::move(ready)}, seen.now)));
  return out;
}

}  // namespace janus::control
