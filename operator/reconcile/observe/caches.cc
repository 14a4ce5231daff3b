#include "operator/reconcile/observe/caches.h"

#include "common/check.h"
#include "operator/reconcile/objects/names.h"

namespace janus::control {
namespace {

// For objects that are written back: all metadata except managedFields, which are half of an
// object.
const std::vector<std::string_view> kMetadata = {
    "metadata.annotations",     "metadata.creationTimestamp", "metadata.deletionTimestamp",
    "metadata.finalizers",      "metadata.generation",        "metadata.labels",
    "metadata.ownerReferences", "metadata.resourceVersion"};

std::vector<std::string_view> WithMetadata(std::vector<std::string_view> fields) {
  fields.insert(fields.end(), kMetadata.begin(), kMetadata.end());
  return fields;
}

}  // namespace

const std::vector<KeptKind>& KeptKinds() {
  static const std::vector<KeptKind> kinds = {
      {&kMoEServices, false, WithMetadata({"spec", "status"})},
      {&kTopologies, true, WithMetadata({"spec", "status"})},
      {&kPods,
       true,
       {"metadata.creationTimestamp",
        "metadata.deletionTimestamp",
        "metadata.labels",
        "metadata.ownerReferences",
        "metadata.resourceVersion",
        "spec.containers.resources.limits",
        "spec.nodeName",
        "spec.volumes.name",
        "status.conditions.lastTransitionTime",
        "status.conditions.message",
        "status.conditions.reason",
        "status.conditions.status",
        "status.conditions.type",
        "status.containerStatuses.lastState.terminated.exitCode",
        "status.containerStatuses.lastState.terminated.message",
        "status.containerStatuses.lastState.terminated.reason",
        "status.containerStatuses.name",
        "status.containerStatuses.restartCount",
        "status.containerStatuses.started",
        "status.containerStatuses.state.terminated.exitCode",
        "status.containerStatuses.state.terminated.message",
        "status.containerStatuses.state.waiting",
        "status.initContainerStatuses.lastState.terminated.exitCode",
        "status.initContainerStatuses.lastState.terminated.message",
        "status.initContainerStatuses.lastState.terminated.reason",
        "status.initContainerStatuses.name",
        "status.initContainerStatuses.state.running.startedAt",
        "status.initContainerStatuses.state.waiting",
        "status.message",
        "status.phase",
        "status.podIP",
        "status.reason"}},
      {&kServices, true, WithMetadata({"spec"})},
      {&kServiceAccounts, true, WithMetadata({"automountServiceAccountToken"})},
      {&kDeployments, true,
       WithMetadata({"spec", "status.availableReplicas", "status.conditions.message",
                     "status.conditions.status", "status.conditions.type",
                     "status.observedGeneration", "status.replicas", "status.updatedReplicas"})},
      {&kDisruptionBudgets, true, WithMetadata({"spec"})},
      {&kRoleScalers, true, WithMetadata({"spec", "status"})},
      {&kNetworkPolicies, true, WithMetadata({"spec"})},
      {&kJobs,
       true,
       {"metadata.deletionTimestamp", "metadata.labels", "metadata.ownerReferences",
        "metadata.resourceVersion", "status.conditions.message", "status.conditions.status",
        "status.conditions.type"}},
      {&kAutoscalers,
       false,
       {"spec.scaleTargetRef.apiVersion", "spec.scaleTargetRef.kind", "spec.scaleTargetRef.name"}},
      {&kNodes,
       false,
       {"spec.taints", "spec.unschedulable", "status.conditions.lastTransitionTime",
        "status.conditions.status", "status.conditions.type"}},
      {&kHardwareProfiles, false, {"spec"}},
  };
  return kinds;
}

const ObjectStore& Caches::Of(const Resource& resource) const {
  if (&resource == &kMoEServices) return services;
  if (&resource == &kTopologies) return topologies;
  if (&resource == &kPods) return pods;
  if (&resource == &kNodes) return nodes;
  if (&resource == &kHardwareProfiles) return profiles;
  if (&resource == &kServices) return endpoints;
  if (&resource == &kServiceAccounts) return accounts;
  if (&resource == &kDeployments) return deployments;
  if (&resource == &kRoleScalers) return scalers;
  if (&resource == &kNetworkPolicies) return policies;
  if (&resource == &kJobs) return jobs;
  if (&resource == &kAutoscalers) return autoscalers;
  JANUS_CHECK(&resource == &kDisruptionBudgets, "no cache of " + resource.ToString());
  return budgets;
}

std::vector<ObjectIndex> ServiceIndex(const Resource& resource) {
  return {{std::string(kByService), [&resource](const Node& object) -> std::vector<std::string> {
             const std::optional<ObjectKey> service = ServiceKeyOf(resource, object);
             if (!service) return {};
             return {service->namespace_ + "/" + service->name};
           }}};
}

std::optional<ScaledRole> ScaledBy(const Node& autoscaler) {
  const std::string_view kind = TextAt(autoscaler, {"spec", "scaleTargetRef", "kind"});
  const std::string_view api = TextAt(autoscaler, {"spec", "scaleTargetRef", "apiVersion"});
  if (kind != kRoleScalers.kind || !api.starts_with(kRoleScalers.group + "/")) return std::nullopt;
  const std::string_view name = TextAt(autoscaler, {"spec", "scaleTargetRef", "name"});
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    const std::string end = RoleObjectName("", role);
    if (name.size() > end.size() && name.ends_with(end)) {
      return ScaledRole{std::string(name.substr(0, name.size() - end.size())), role};
    }
  }
  return std::nullopt;
}

std::optional<ObjectKey> ServiceKeyOf(const Resource& resource, const Node& object) {
  if (&resource == &kMoEServices) return KeyOf(object);
  if (&resource == &kAutoscalers) {
    const std::optional<ScaledRole> scaled = ScaledBy(object);
    if (!scaled) return std::nullopt;
    return ObjectKey{KeyOf(object).namespace_, scaled->service};
  }
  const std::string_view name = TextAt(object, {"metadata", "labels", kServiceLabel});
  if (name.empty()) return std::nullopt;
  return ObjectKey{KeyOf(object).namespace_, std::string(name)};
}

}  // namespace janus::control
