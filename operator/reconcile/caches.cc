#include "operator/reconcile/caches.h"

#include "common/check.h"
#include "operator/reconcile/names.h"

namespace janus::control {

const ObjectStore& Caches::Of(const Resource& resource) const {
  if (&resource == &kMoEServices) return services;
  if (&resource == &kTopologies) return topologies;
  if (&resource == &kPods) return pods;
  if (&resource == &kNodes) return nodes;
  if (&resource == &kServices) return endpoints;
  if (&resource == &kServiceAccounts) return accounts;
  if (&resource == &kDeployments) return deployments;
  if (&resource == &kRoleScalers) return scalers;
  JANUS_CHECK(&resource == &kDisruptionBudgets, "no cache of " + resource.ToString());
  return budgets;
}

std::vector<ObjectIndex> ServiceIndex() {
  return {{std::string(kByService), [](const Node& object) -> std::vector<std::string> {
             const std::string_view name = TextAt(object, {"metadata", "labels", kServiceLabel});
             if (name.empty()) return {};
             return {KeyOf(object).namespace_ + "/" + std::string(name)};
           }}};
}

std::optional<ObjectKey> ServiceKeyOf(const Resource& resource, const Node& object) {
  if (&resource == &kMoEServices) return KeyOf(object);
  const std::string_view name = TextAt(object, {"metadata", "labels", kServiceLabel});
  if (name.empty()) return std::nullopt;
  return ObjectKey{KeyOf(object).namespace_, std::string(name)};
}

}  // namespace janus::control
