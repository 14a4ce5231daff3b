#pragma once

#include <vector>

#include "operator/reconcile/children/children.h"

namespace janus::control {

// What `security.networkPolicy` asks for; empty where it does not. Pure.
//
// `<service>-workers`: gRPC from the service's own workers and gateways and from the operator, the
// exchange and UCX's own ports from its workers, probes and metrics from anywhere (the kubelet of
// whatever node, a Prometheus of whatever namespace). `<service>-gateway`: its port from anywhere,
// which matters in a namespace that denies ingress by default.
//
// Only ingress. Egress stays as it is: a policy for it would have to name the cluster's DNS and
// what podTemplate adds, which differ from cluster to cluster. It would protect nothing either, as
// each worker's own policy decides at its ports.
std::vector<Child> NetworkPoliciesOf(const MoEService& service, const OperatorDefaults& defaults);

}  // namespace janus::control
