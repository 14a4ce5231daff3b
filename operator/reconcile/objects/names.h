#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/topology.h"
#include "operator/api/tree.h"
#include "operator/kube/resource.h"

namespace janus::control {

// Names, labels and resources of a service's objects. They are part of the API: users select by
// them.

inline constexpr std::string_view kServiceLabel = "serving.janus.dev/service";
inline constexpr std::string_view kRoleLabel = "serving.janus.dev/role";
inline constexpr std::string_view kRevisionLabel = "serving.janus.dev/revision";
// On worker pods: the model they were created for (ModelLabelOf).
inline constexpr std::string_view kModelLabel = "serving.janus.dev/model";
// On worker pods of several instances: how many. A pod without it has one.
inline constexpr std::string_view kInstancesLabel = "serving.janus.dev/instances";
// "true" on worker pods that share memory with the other pods of their machine
// (exchange.hostShared).
inline constexpr std::string_view kHostSharedLabel = "serving.janus.dev/host-shared";
// On worker pods and MoETopologies: the number of their pool. One without it is in the first.
inline constexpr std::string_view kPoolLabel = "serving.janus.dev/pool";
// "true" only on pods of the committed topology.
inline constexpr std::string_view kMemberLabel = "serving.janus.dev/member";
// The readiness gate of worker pods: True after Commit.
inline constexpr std::string_view kMemberCondition = "serving.janus.dev/member";
// On our objects: a hash of the wanted content.
inline constexpr std::string_view kWantedAnnotation = "serving.janus.dev/wanted";
// On a MoEService: a new value reissues all its certificates from a new authority.
inline constexpr std::string_view kRenewalAnnotation = "serving.janus.dev/certificatesRenewedAt";
// Volume of a pod with mutual TLS: its role's Secret.
inline constexpr std::string_view kTrustVolume = "janus-tls";
// On a MoETopology: the last spec under which the whole service ran, in JSON. While the current
// spec cannot be carried out, this one is kept up.
inline constexpr std::string_view kLastSpecAnnotation = "serving.janus.dev/last-spec";
// On a MoEService: a new value replaces all its pods.
inline constexpr std::string_view kRestartedAtAnnotation = "serving.janus.dev/restartedAt";

// The value of kRoleLabel is ToString(Role); nothing: not a role.
std::optional<Role> RoleNamed(std::string_view name);

// <service>-<role>-<revision>-<id>. A role's ids increase and are never reused.
std::string PodName(std::string_view service, Role role, std::string_view revision, int64_t id);
// The id at the end of a pod's name; nothing: not a name of ours.
std::optional<int64_t> PodIdOf(std::string_view name);

inline std::string GatewayName(std::string_view service) {
  return std::string(service) + "-gateway";
}
// The headless Service that lists every worker.
inline std::string MembersName(std::string_view service) {
  return std::string(service) + "-members";
}
// The headless Service that lists the workers of a pool, where a service uses pools.
inline std::string PoolName(std::string_view service, int pool) {
  return std::string(service) + "-pool-" + std::to_string(pool);
}
// The pool in a label's value; 1: it names none. Of an object: in kPoolLabel.
int PoolIn(std::string_view label);
int PoolOf(const Node& object);
// The policy that protects the workers. The gateways' policy has the gateways' name.
inline std::string WorkersPolicyName(std::string_view service) {
  return std::string(service) + "-workers";
}
// A role's PodDisruptionBudget, and its MoERoleScaler in mode External.
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

// The policy of the Jobs that fetch models. A Job has this name and a key (FetchJobName).
inline std::string FetchPolicyName(std::string_view service) {
  return std::string(service) + "-fetch";
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
inline const Resource kNamespaces{"", "v1", "namespaces", "Namespace", false};
inline const Resource kHardwareProfiles{"serving.janus.dev", "v1alpha1", "hardwareprofiles",
                                        "HardwareProfile", false};
inline const Resource kDeployments{"apps", "v1", "deployments", "Deployment"};
inline const Resource kJobs{"batch", "v1", "jobs", "Job"};
inline const Resource kDisruptionBudgets{"policy", "v1", "poddisruptionbudgets",
                                         "PodDisruptionBudget"};
inline const Resource kAutoscalers{"autoscaling", "v2", "horizontalpodautoscalers",
                                   "HorizontalPodAutoscaler"};
inline const Resource kNetworkPolicies{"networking.k8s.io", "v1", "networkpolicies",
                                       "NetworkPolicy"};

}  // namespace janus::control
