#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/topology.h"
#include "operator/kube/resource.h"

namespace janus::control {

// Names, labels and resources of all that belongs to a service. What they are is API: users select
// by them.

inline constexpr std::string_view kServiceLabel = "serving.janus.dev/service";
inline constexpr std::string_view kRoleLabel = "serving.janus.dev/role";
inline constexpr std::string_view kRevisionLabel = "serving.janus.dev/revision";
// On worker pods: which model they were made for (ModelLabelOf).
inline constexpr std::string_view kModelLabel = "serving.janus.dev/model";
// "true" on the pods of the committed topology, and on no other.
inline constexpr std::string_view kMemberLabel = "serving.janus.dev/member";
// The readiness gate of worker pods: True after Commit.
inline constexpr std::string_view kMemberCondition = "serving.janus.dev/member";
// On an object that we own: a hash of what we want of it.
inline constexpr std::string_view kWantedAnnotation = "serving.janus.dev/wanted";
// On a MoEService: another value has all its certificates issued anew, by a new authority.
inline constexpr std::string_view kRenewalAnnotation = "serving.janus.dev/certificatesRenewedAt";
// Of a pod with mutual TLS: its role's Secret.
inline constexpr std::string_view kTrustVolume = "janus-tls";
// On a MoETopology: the last spec whose service was whole, in JSON. What serves is kept by it while
// the spec is one that cannot be carried out.
inline constexpr std::string_view kLastSpecAnnotation = "serving.janus.dev/last-spec";
// On a MoEService: another value rolls all its pods.
inline constexpr std::string_view kRestartedAtAnnotation = "serving.janus.dev/restartedAt";

// The value of kRoleLabel is ToString(Role); nothing: it is none.
std::optional<Role> RoleNamed(std::string_view name);

// <service>-<role>-<revision>-<id>. Ids of a role go up and are never used twice.
std::string PodName(std::string_view service, Role role, std::string_view revision, int64_t id);
// The id at the end of a pod's name; nothing: it is not one of ours.
std::optional<int64_t> PodIdOf(std::string_view name);

inline std::string GatewayName(std::string_view service) {
  return std::string(service) + "-gateway";
}
// The headless Service under which any worker is found.
inline std::string MembersName(std::string_view service) {
  return std::string(service) + "-members";
}
// Of the policy that guards the workers. The policy of the gateways has the gateways' name.
inline std::string WorkersPolicyName(std::string_view service) {
  return std::string(service) + "-workers";
}
// Of a role: its PodDisruptionBudget, and its MoERoleScaler in mode External.
inline std::string RoleObjectName(std::string_view service, Role role) {
  return std::string(service) + "-" + std::string(ToString(role));
}
// The Secret with the certificates of gateways, or of a role's workers.
inline std::string TlsSecretName(std::string_view service, std::string_view role) {
  return std::string(service) + "-" + std::string(role) + "-tls";
}
inline std::string WorkerAccountName(std::string_view service) {
  return std::string(service) + "-worker";
}

inline const Resource kMoEServices{"serving.janus.dev", "v1alpha1", "moeservices", "MoEService"};
inline const Resource kRoleScalers{"serving.janus.dev", "v1alpha1", "moerolescalers",
                                   "MoERoleScaler"};
inline const Resource kTopologies{"serving.janus.dev", "v1alpha1", "moetopologies", "MoETopology"};
inline const Resource kPods{"", "v1", "pods", "Pod"};
inline const Resource kServices{"", "v1", "services", "Service"};
inline const Resource kServiceAccounts{"", "v1", "serviceaccounts", "ServiceAccount"};
inline const Resource kSecrets{"", "v1", "secrets", "Secret"};
inline const Resource kNodes{"", "v1", "nodes", "Node", false};
inline const Resource kDeployments{"apps", "v1", "deployments", "Deployment"};
inline const Resource kDisruptionBudgets{"policy", "v1", "poddisruptionbudgets",
                                         "PodDisruptionBudget"};
inline const Resource kNetworkPolicies{"networking.k8s.io", "v1", "networkpolicies",
                                       "NetworkPolicy"};

}  // namespace janus::control
