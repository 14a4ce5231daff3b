#pragma once

#include <string>

#include "common/topology.h"
#include "operator/api/moeservice.h"
#include "operator/api/tree.h"
#include "operator/reconcile/children/children.h"
#include "operator/reconcile/objects/owned.h"

namespace janus::control {

// Ports of worker pods: instance i of a pod has its gRPC at kGrpcPort + 10 i, its exchange one
// above, and UCX's own 32 from kUcxPort + 32 i.
inline constexpr int kGrpcPort = 9000;
inline constexpr int kUcxPort = 9200;
inline constexpr int kUcxPorts = 32;
inline constexpr int kProbePort = 9100;
inline constexpr int kGatewayPort = 8000;

// Where a pod finds the model, whatever its source.
inline constexpr std::string_view kModelMount = "/model";

// Where it finds its certificates.
inline constexpr std::string_view kTrustMount = "/etc/janus/tls";

// What of a pod is its own; the rest comes from the service.
struct PodIdentity {
  Role role = Role::kAttention;
  std::string revision;
  int64_t id = 0;
  std::string image;
};

// A worker pod, whole, for POST: what podTemplate says, and over it what makes it ours: names,
// labels, owner, the container "worker" with its arguments, ports, probes and mounts. Other
// containers, volumes, labels and what podTemplate sets of the container beside that stay. Pure.
Node WorkerPod(const MoEService& service, const OperatorDefaults& defaults,
               const PodIdentity& identity);

// The pod template of the gateway's Deployment, in the same way; its container is "gateway". The
// service's kRestartedAtAnnotation is in it, so that another value replaces the gateways too.
Node GatewayTemplate(const MoEService& service, const OperatorDefaults& defaults);

}  // namespace janus::control
