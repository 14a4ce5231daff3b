#include "operator/reconcile/children/children.h"

#include "operator/api/enums.h"
#include "operator/kube/object.h"
#include "operator/reconcile/children/network_policies.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/pods/worker_pod.h"

namespace janus::control {
namespace {

constexpr std::string_view kGateway = "gateway";

Node Empty(const Resource& resource) {
  return Object({{"apiVersion", Text(resource.ApiVersion())}, {"kind", Text(resource.kind)}});
}

// The selector of a Service, Deployment or PodDisruptionBudget for a service's pods.
Labels SelectorOf(const MoEService& service, std::string_view label, std::string_view value) {
  return {{std::string(kServiceLabel), service.metadata.name},
          {std::string(label), std::string(value)}};
}

Node Endpoint(const MoEService& service) {
  const GatewayServiceSpec& asked = service.spec.gateway.service;
  Node out = Empty(kServices);
  SetAt(out, {"spec"},
        Object({{"type", Text(ToString(asked.type))},
                {"selector", TextMap(SelectorOf(service, "app.kubernetes.io/component", kGateway))},
                {"ports", ListOf({Object({{"name", Text("http")},
                                          {"port", Node::Integer(asked.port)},
                                          {"targetPort", Text("http")},
                                          {"protocol", Text("TCP")}})})}}));
  MakeOwned(service, service.metadata.name, LabelsOf(service, kGateway), out);
  return out;
}

// Includes pods that are not ready: the operator calls a worker before it is a member.
Node Headless(const MoEService& service, const std::string& name, const Labels& selector) {
  Node out = Empty(kServices);
  SetAt(out, {"spec"},
        Object({{"clusterIP", Text("None")},
                {"publishNotReadyAddresses", Node::Bool(true)},
                {"selector", TextMap(selector)},
                {"ports", ListOf({Object({{"name", Text("grpc")},
                                          {"port", Node::Integer(kGrpcPort)},
                                          {"targetPort", Node::Integer(kGrpcPort)},
                                          {"protocol", Text("TCP")}})})}}));
  MakeOwned(service, name, LabelsOf(service, "members"), out);
  return out;
}

Node Members(const MoEService& service) {
  return Headless(service, MembersName(service.metadata.name),
                  SelectorOf(service, "app.kubernetes.io/name", "janus-worker"));
}

// For gateways, which follow the topologies of each pool.
Node MembersOfPool(const MoEService& service, int pool) {
  Labels selector = SelectorOf(service, "app.kubernetes.io/name", "janus-worker");
  selector[std::string(kPoolLabel)] = std::to_string(pool);
  return Headless(service, PoolName(service.metadata.name, pool), selector);
}

// Pods do not call the API server.
Node WorkerAccount(const MoEService& service) {
  Node out = Empty(kServiceAccounts);
  SetAt(out, {"automountServiceAccountToken"}, Node::Bool(false));
  MakeOwned(service, WorkerAccountName(service.metadata.name), LabelsOf(service, "worker"), out);
  return out;
}

Node DisruptionBudget(const MoEService& service, Role role, int committed) {
  Labels selector = SelectorOf(service, kRoleLabel, ToString(role));
  selector[std::string(kMemberLabel)] = "true";
  Node out = Empty(kDisruptionBudgets);
  SetAt(out, {"spec"},
        Object({{"minAvailable", Node::Integer(committed)},
                {"selector", Object({{"matchLabels", TextMap(selector)}})}}));
  MakeOwned(service, RoleObjectName(service.metadata.name, role), LabelsOf(service, ToString(role)),
            out);
  return out;
}

// Evictions remove one gateway at a time, since a node upgrade may bring both onto one node. They
// do not remove the only one. Unready gateways, as while no epoch serves, do not block a drain.
Node GatewayBudget(const MoEService& service, bool keeps_one) {
  Node out = Empty(kDisruptionBudgets);
  SetAt(out, {"spec"},
        Object({{keeps_one ? "minAvailable" : "maxUnavailable", Node::Integer(1)},
                {"selector",
                 Object({{"matchLabels",
                          TextMap(SelectorOf(service, "app.kubernetes.io/component", kGateway))}})},
                {"unhealthyPodEvictionPolicy", Text("AlwaysAllow")}}));
  MakeOwned(service, GatewayName(service.metadata.name), LabelsOf(service, kGateway), out);
  return out;
}

Node Gateway(const MoEService& service, const OperatorDefaults& defaults, int replicas) {
  const Labels selector = SelectorOf(service, "app.kubernetes.io/component", kGateway);
  Node out = Empty(kDeployments);
  SetAt(out, {"spec"},
        Object({{"replicas", Node::Integer(replicas)},
                {"selector", Object({{"matchLabels", TextMap(selector)}})},
                // A new gateway starts before an old one ends, so that every request finds one.
                {"strategy", Object({{"type", Text("RollingUpdate")},
                                     {"rollingUpdate", Object({{"maxUnavailable", Node::Integer(0)},
                                                               {"maxSurge", Node::Integer(1)}})}})},
                {"template", GatewayTemplate(service, defaults)}}));
  MakeOwned(service, GatewayName(service.metadata.name), LabelsOf(service, kGateway), out);
  return out;
}

}  // namespace

std::vector<Child> ChildrenOf(const MoEService& service, const OperatorDefaults& defaults,
                              const CommittedPods& committed, LeavingGateways leaving, int pools) {
  const int gateways = service.spec.gateway.replicas.value_or(defaults.gateway_replicas);
  const bool keeps_one = gateways == 1 && leaving.has_value();
  // Policies come before the objects that they protect.
  std::vector<Child> out = NetworkPoliciesOf(service, defaults);
  out.push_back({&kServiceAccounts, WorkerAccount(service)});
  out.push_back({&kServices, Members(service)});
  for (int pool = 1; pool <= pools; ++pool) {
    out.push_back({&kServices, MembersOfPool(service, pool)});
  }
  out.push_back({&kServices, Endpoint(service)});
  out.push_back({&kDisruptionBudgets, GatewayBudget(service, keeps_one)});
  out.push_back(
      {&kDeployments, Gateway(service, defaults, gateways + (keeps_one && *leaving > 0 ? 1 : 0))});
  for (const auto& [role, pods] : {std::pair{Role::kAttention, committed.attention},
                                   std::pair{Role::kExperts, committed.experts}}) {
    if (pods > 0) out.push_back({&kDisruptionBudgets, DisruptionBudget(service, role, pods)});
  }
  return out;
}

}  // namespace janus::control
