#pragma once

#include <vector>

#include "operator/reconcile/children/children.h"

namespace janus::control {

// The policies that `security.networkPolicy` asks for; empty if it does not. Pure.
//
// `<service>-workers` allows gRPC from the service's workers and gateways and from the operator;
// the exchange and UCX ports from its workers; probes and metrics from anywhere (the kubelet of any
// node, Prometheus in any namespace). `<service>-gateway` allows its port from anywhere, which
// matters if the namespace denies ingress by default.
//
// Only ingress. An egress policy would have to name the cluster's DNS and whatever podTemplate
// adds, which differ between clusters. It would add no protection, as each worker's ingress policy
// protects its ports.
std::vector<Child> NetworkPoliciesOf(const MoEService& service, const OperatorDefaults& defaults);

// The operator's pods as a peer of a rule, by labels that the chart always sets; each namespace has
// its name as a label. Pure.
Node OperatorPeer(const OperatorDefaults& defaults);

}  // namespace janus::control
