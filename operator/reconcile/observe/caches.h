#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/topology.h"
#include "operator/api/tree.h"
#include "operator/kube/object_store.h"
#include "operator/kube/resource.h"

namespace janus::control {

// Copies of everything that a pass reads. All outlive their users. Thread-safe.
struct Caches {
  const ObjectStore& services;    // MoEServices
  const ObjectStore& topologies;  // indexed by kByService, like those below
  const ObjectStore& pods;
  const ObjectStore& endpoints;  // Services
  const ObjectStore& accounts;
  const ObjectStore& deployments;
  const ObjectStore& budgets;
  const ObjectStore& scalers;
  const ObjectStore& policies;  // NetworkPolicies
  const ObjectStore& jobs;
  const ObjectStore& autoscalers;  // HorizontalPodAutoscalers of MoERoleScalers, by their service
  const ObjectStore& nodes;
  const ObjectStore& profiles;  // HardwareProfiles

  // Aborts for any other resource.
  const ObjectStore& Of(const Resource& resource) const;
};

// The fields that are kept of a kind of objects: a pass sees no others.
struct KeptKind {
  const Resource* resource;
  bool is_labelled;  // keep only objects with the service label
  std::vector<std::string_view> fields;
};
// In the order of Caches. They include nothing that a node's heartbeat changes.
const std::vector<KeptKind>& KeptKinds();

// Objects by their service (ServiceKeyOf): "namespace/name". `resource` must outlive the index.
inline constexpr std::string_view kByService = "service";
std::vector<ObjectIndex> ServiceIndex(const Resource& resource);

// The MoERoleScaler that a HorizontalPodAutoscaler scales: its service and role.
struct ScaledRole {
  std::string service;
  Role role = Role::kAttention;
};
// Nothing: it scales something else.
std::optional<ScaledRole> ScaledBy(const Node& autoscaler);

// The service itself, the service that an object's label names, or the one whose role an autoscaler
// scales; nothing: none.
std::optional<ObjectKey> ServiceKeyOf(const Resource& resource, const Node& object);

}  // namespace janus::control
