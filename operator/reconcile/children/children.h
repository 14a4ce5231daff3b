#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/moeservice.h"
#include "operator/api/tree.h"
#include "operator/kube/resource.h"

namespace janus::control {

// The operator's settings for what a MoEService leaves open.
struct OperatorDefaults {
  std::string gateway_image;
  std::string image_pull_policy = "IfNotPresent";
  int gateway_replicas = 2;
  bool certificates = false;  // the operator issues them, and connections use mutual TLS
  std::string operator_namespace = "janus-system";  // namespace of the operator's pods
  std::string fetch_image = {};                     // has janus-worker, which fetches models
  std::string hub_endpoint = {};                    // of models; empty: the public hub
};

// True if the service's connections use mutual TLS.
inline bool UsesTls(const MoEService& service, const OperatorDefaults& defaults) {
  return defaults.certificates && service.spec.security.tls == Tls::kAuto;
}

// Pods of the committed topology by role. None may be evicted before a new topology replaces it.
struct CommittedPods {
  int attention = 0;
  int experts = 0;
  friend CommittedPods operator+(const CommittedPods& a, const CommittedPods& b) {
    return {a.attention + b.attention, a.experts + b.experts};
  }
};

// Gateways that run on nodes that they must leave: a service with one gateway gets another one
// first. Absent: nodes are not read, so an eviction of the only gateway is not held up, and
// requests are refused until its successor is ready.
using LeavingGateways = std::optional<int>;

// An object that a service needs, other than pods.
struct Child {
  const Resource* resource;  // of names.h
  Node object;
  // The object to create by POST, if it has more than what is kept up later; absent: it is applied.
  std::optional<Node> first = {};
};

// The gateway's Deployment, the endpoint's Service, the members' headless Service and one for each
// of `pools` (0: the service uses none), the workers' ServiceAccount, a PodDisruptionBudget for
// each role with committed pods, and NetworkPolicies if the spec asks for them
// (network_policies.h). They are complete, with labels, owner reference and the hash of the wanted
// content (owned.h). Pure.
std::vector<Child> ChildrenOf(const MoEService& service, const OperatorDefaults& defaults,
                              const CommittedPods& committed,
                              LeavingGateways leaving = std::nullopt, int pools = 0);

}  // namespace janus::control
