#include "operator/reconcile/children/network_policies.h"

#include <utility>

#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/pods/pods.h"
#include "operator/reconcile/pods/worker_pod.h"

namespace janus::control {
namespace {

Node PodsWith(const Labels& labels) {
  return Object({{"matchLabels", TextMap(labels)}});
}

Node Workers(const MoEService& service) {
  return PodsWith({{std::string(kServiceLabel), service.metadata.name},
                   {"app.kubernetes.io/name", "janus-worker"}});
}

Node Gateways(const MoEService& service) {
  return PodsWith({{std::string(kServiceLabel), service.metadata.name},
                   {"app.kubernetes.io/component", "gateway"}});
}

Node InTheNamespace(Node pods) {
  return Object({{"podSelector", std::move(pods)}});
}

Node Port(int port) {
  return Object({{"port", Node::Integer(port)}, {"protocol", Text("TCP")}});
}

Node Ports(int first, int count) {
  Node out = Port(first);
  out.Add("endPort", Node::Integer(first + count - 1));
  return out;
}

// One port of every instance that a pod can have, whatever the spec says: pods of an earlier spec
// may still serve.
Node PortsOfInstances(int first) {
  Node out = Node::List();
  for (int index = 0; index < kMostInstancesPerPod; ++index) {
    out.items.push_back(Port(first + kPortsPerInstance * index));
  }
  return out;
}

Node ExchangePorts() {
  Node out = PortsOfInstances(kGrpcPort + 1);
  out.items.push_back(Ports(kUcxPort, kUcxPorts * kMostInstancesPerPod));
  return out;
}

// `rules`: the allowed callers; the pods refuse all others.
Child Policy(const MoEService& service, const std::string& name, std::string_view component,
             Node pods, Node rules) {
  Node out = Object({{"apiVersion", Text(kNetworkPolicies.ApiVersion())},
                     {"kind", Text(kNetworkPolicies.kind)},
                     {"spec", Object({{"podSelector", std::move(pods)},
                                      {"policyTypes", ListOf({Text("Ingress")})},
                                      {"ingress", std::move(rules)}})}});
  MakeOwned(service, name, LabelsOf(service, component), out);
  return {&kNetworkPolicies, std::move(out)};
}

}  // namespace

Node OperatorPeer(const OperatorDefaults& defaults) {
  return Object({{"namespaceSelector",
                  PodsWith({{"kubernetes.io/metadata.name", defaults.operator_namespace}})},
                 {"podSelector", PodsWith({{"app.kubernetes.io/component", "operator"},
                                           {"app.kubernetes.io/part-of", "janus"}})}});
}

std::vector<Child> NetworkPoliciesOf(const MoEService& service, const OperatorDefaults& defaults) {
  if (!service.spec.security.network_policy) return {};
  const std::string& name = service.metadata.name;
  const Node workers = InTheNamespace(Workers(service));
  std::vector<Child> out;
  out.push_back(Policy(service, WorkersPolicyName(name), "worker", Workers(service),
                       ListOf({Object({{"from", ListOf({workers, InTheNamespace(Gateways(service)),
                                                        OperatorPeer(defaults)})},
                                       {"ports", PortsOfInstances(kGrpcPort)}}),
                               // Not encrypted, and UCX parses bytes before any check.
                               Object({{"from", ListOf({workers})}, {"ports", ExchangePorts()}}),
                               Object({{"ports", ListOf({Port(kProbePort)})}})})));
  out.push_back(Policy(service, GatewayName(name), "gateway", Gateways(service),
                       ListOf({Object({{"ports", ListOf({Port(kGatewayPort)})}})})));
  return out;
}

}  // namespace janus::control
