#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/moeservice.h"
#include "operator/api/tree.h"
#include "operator/kube/resource.h"

namespace janus::control {

// What the operator's configuration says where a MoEService leaves it open.
struct OperatorDefaults {
  std::string gateway_image;
  std::string image_pull_policy = "IfNotPresent";
  int gateway_replicas = 2;
  bool certificates = false;  // the operator issues them: connections are mutual TLS
  std::string operator_namespace = "janus-system";  // where the operator's own pods are
};

// Whether the service's connections are mutual TLS.
inline bool UsesTls(const MoEService& service, const OperatorDefaults& defaults) {
  return defaults.certificates && service.spec.security.tls == Tls::kAuto;
}

// How many pods of a role the committed topology has: none of them may be evicted before it is
// replaced.
struct CommittedPods {
  int attention = 0;
  int experts = 0;
};

// An object that a service wants to exist, but for its pods.
struct Child {
  const Resource* resource;  // of names.h
  Node object;
  // What it is made from, by POST, where that says more than is kept up afterwards; absent: it is
  // applied.
  std::optional<Node> first = {};
};

// The gateway's Deployment, the endpoint's Service, the headless one of the members, the workers'
// ServiceAccount, one PodDisruptionBudget per role that has committed pods, and NetworkPolicies
// where the spec asks for them (network_policies.h): whole, with labels, owner reference and the
// hash of what is wanted (owned.h). Pure.
std::vector<Child> ChildrenOf(const MoEService& service, const OperatorDefaults& defaults,
                              const CommittedPods& committed);

}  // namespace janus::control
