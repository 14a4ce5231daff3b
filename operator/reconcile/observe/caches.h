#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/api/tree.h"
#include "operator/kube/object_store.h"
#include "operator/kube/resource.h"

namespace janus::control {

// Copies of everything a pass reads. All outlive their users. Thread-safe.
struct Caches {
  const ObjectStore& services;    // MoEServices
  const ObjectStore& topologies;  // indexed by kByService, as the next
  const ObjectStore& pods;
  const ObjectStore& endpoints;  // Services
  const ObjectStore& accounts;
  const ObjectStore& deployments;
  const ObjectStore& budgets;
  const ObjectStore& scalers;
  const ObjectStore& policies;  // NetworkPolicies
  const ObjectStore& nodes;

  // Aborts for any other resource.
  const ObjectStore& Of(const Resource& resource) const;
};

// What is kept of a kind of objects that passes read: no pass sees what is not named here.
struct KeptKind {
  const Resource* resource;
  bool is_labelled;  // of those with the name of their service alone
  std::vector<std::string_view> fields;
};
// In the order of Caches. Of a node nothing that its heartbeat changes.
const std::vector<KeptKind>& KeptKinds();

// Objects by the service that kServiceLabel names: "namespace/name".
inline constexpr std::string_view kByService = "service";
std::vector<ObjectIndex> ServiceIndex();

// The service an object belongs to by its label, or is itself; nothing: none.
std::optional<ObjectKey> ServiceKeyOf(const Resource& resource, const Node& object);

}  // namespace janus::control
