#pragma once

#include <vector>

#include "operator/reconcile/children/children.h"

namespace janus::control {

// What `security.networkPolicy` asks for; empty where it does not. Pure.
//
// `<service>-workers`: gRPC from the service's own workers and gateways and from the operator, the
// exchange and UCX's own ports from its workers, probes and metrics from anywhere (the kubelet of
// whatever node, a Prometheus of whatever namespace). `<service>-gateway`: its port from anywhere,
// which says something where the namespace lets in nobody otherwise.
//
// Ingress alone. Whom a pod may call is left as it is: a policy for it would have to name where the
// cluster's DNS and what podTemplate adds are, which differ from cluster to cluster, and would
// protect nobody: at each worker's ports it is the worker's own policy that decides.
std::vector<Child> NetworkPoliciesOf(const MoEService& service, const OperatorDefaults& defaults);

}  // namespace janus::control
