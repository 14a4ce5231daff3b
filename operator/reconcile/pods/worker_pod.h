#pragma once

#include <string>

#include "common/topology.h"
#include "operator/api/moeservice.h"
#include "operator/api/tree.h"
#include "operator/reconcile/children/children.h"
#include "operator/reconcile/objects/owned.h"

namespace janus::control {

// Ports of worker pods. Instance i of a pod uses kGrpcPort + 10 i for gRPC, the next port for the
// exchange, and 32 ports from kUcxPort + 32 i for UCX.
inline constexpr int kGrpcPort = 9000;
inline constexpr int kPortsPerInstance = 10;
inline constexpr int kUcxPort = 9200;
inline constexpr int kUcxPorts = 32;
inline constexpr int kProbePort = 9100;
inline constexpr int kGatewayPort = 8000;

// Mount path of the model, whatever its source.
inline constexpr std::string_view kModelMount = "/model";

// Mount path of the sockets that instances of one pod use.
inline constexpr std::string_view kSocketsMount = "/run/janus";

// With exchange.hostShared: the folder of a machine that holds one folder for each service, and
// where the pods of the service have it. In it are the sockets over which they meet.
inline constexpr std::string_view kHostFolder = "/run/janus";
inline constexpr std::string_view kHostMount = "/run/janus-host";

// Mount path of certificates.
inline constexpr std::string_view kTrustMount = "/etc/janus/tls";

// What is specific to a pod; the rest comes from the service.
struct PodIdentity {
  Role role = Role::kAttention;
  std::string revision;
  int64_t id = 0;
  std::string image;
  int instances = 1;  // that it runs
  int pool = 1;
};

// A complete worker pod for POST: podTemplate, overlaid with our names, labels, owner, and the
// container "worker" with arguments, ports, probes and mounts. Other containers, volumes, labels
// and container fields of podTemplate stay. The role's resources are those of an instance: a pod
// of several gets a multiple. Pure.
Node WorkerPod(const MoEService& service, const OperatorDefaults& defaults,
               const PodIdentity& identity);

// The pod template of the gateway's Deployment, built in the same way; its container is "gateway".
// It contains the service's kRestartedAtAnnotation, so that a new value also replaces the gateways.
Node GatewayTemplate(const MoEService& service, const OperatorDefaults& defaults);

}  // namespace janus::control
