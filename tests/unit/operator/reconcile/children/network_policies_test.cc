#include "operator/reconcile/children/network_policies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "operator/kube/object.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/pods/worker_pod.h"

namespace janus::control {
namespace {

const OperatorDefaults kDefaults{.gateway_image = "gateway:1", .operator_namespace = "control"};

MoEService Chat() {
  MoEService service;
  service.metadata.name = "chat";
  service.metadata.namespace_ = "prod";
  service.metadata.uid = "uid-1";
  service.spec.model.source.type = SourceType::kHostPath;
  service.spec.model.source.host_path = HostPathSource{"/models/demo"};
  service.spec.security.network_policy = true;
  return service;
}

// A caller: a pod with the labels of its metadata, or a client outside of the cluster.
struct Caller {
  std::string name;
  std::string ns;
  Node metadata;
};

// An empty selector selects all.
bool Selects(const Node& selector, const Node& metadata) {
  const Node* labels = selector.Find("matchLabels");
  EXPECT_TRUE(labels != nullptr && selector.fields.size() == 1) << "not read here";
  return labels != nullptr &&
         std::all_of(labels->fields.begin(), labels->fields.end(), [&](const NodeField& one) {
           return TextAt(metadata, {"labels", one.name}) == one.value.text;
         });
}

bool Takes(const Node& peer, const Caller& caller) {
  if (caller.ns.empty()) return false;  // only ipBlock could allow it
  const Node* ns = peer.Find("namespaceSelector");
  const Node space =
      Object({{"labels", Object({{"kubernetes.io/metadata.name", Text(caller.ns)}})}});
  if (ns == nullptr ? caller.ns != "prod" : !Selects(*ns, space)) return false;
  return Selects(*peer.Find("podSelector"), caller.metadata);
}

bool Names(const Node& rule, int port) {
  return std::any_of(rule.Find("ports")->items.begin(), rule.Find("ports")->items.end(),
                     [&](const Node& one) {
                       const int64_t first = *IntegerAt(one, {"port"});
                       return TextAt(one, {"protocol"}) == "TCP" && port >= first &&
                              port <= IntegerAt(one, {"endPort"}).value_or(first);
                     });
}

// As a network plugin decides: a pod that no policy selects accepts every caller.
bool MayCall(const std::vector<Child>& policies, const Caller& caller, const Node& pod, int port) {
  bool is_selected = false;
  for (const Child& policy : policies) {
    const Node& spec = *policy.object.Find("spec");
    if (!Selects(*spec.Find("podSelector"), pod)) continue;
    is_selected = true;
    for (const Node& rule : spec.Find("ingress")->items) {
      if (!Names(rule, port)) continue;
      const Node* from = rule.Find("from");
      if (from == nullptr || std::any_of(from->items.begin(), from->items.end(),
                                         [&](const Node& peer) { return Takes(peer, caller); })) {
        return true;
      }
    }
  }
  return !is_selected;
}

TEST(NetworkPoliciesOf, LetComeWhoHasToAndNobodyElse) {
  const MoEService service = Chat();
  const std::vector<Child> policies = NetworkPoliciesOf(service, kDefaults);
  MoEService other = service;
  other.metadata.name = "other";
  const auto worker = [](const MoEService& of, Role role) {
    return *WorkerPod(of, kDefaults, {role, "bcdfghjklm", 7, "worker:1"}).Find("metadata");
  };
  const auto gateway = [](const MoEService& of) {
    return *GatewayTemplate(of, kDefaults).Find("metadata");
  };
  const Node of_operator =
      Object({{"labels", Object({{"app.kubernetes.io/component", Text("operator")},
                                 {"app.kubernetes.io/part-of", Text("janus")},
                                 {"app.kubernetes.io/name", Text("named")}})}});
  const Caller callers[] = {
      {"attention", "prod", worker(service, Role::kAttention)},
      {"experts", "prod", worker(service, Role::kExperts)},
      {"gateway", "prod", gateway(service)},
      {"operator", "control", of_operator},
      {"operator elsewhere", "prod", of_operator},
      {"worker of another service", "prod", worker(other, Role::kExperts)},
      {"gateway of another service", "prod", gateway(other)},
      {"worker elsewhere", "control", worker(service, Role::kExperts)},
      {"any pod", "prod", Object({{"labels", Node::Map()}})},
      {"any pod of the operator's namespace", "control", Object({{"labels", Node::Map()}})},
      {"outside", "", Node()},
  };
  const std::string all =
      "attention, experts, gateway, operator, operator elsewhere, worker of another service, "
      "gateway of another service, worker elsewhere, any pod, any pod of the operator's namespace, "
      "outside, ";
  const auto who = [&](const Node& pod, int port) {
    std::string out;
    for (const Caller& one : callers) {
      if (MayCall(policies, one, pod, port)) out += one.name + ", ";
    }
    return out;
  };
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    const Node pod = worker(service, role);
    // Of a pod's first and last instance.
    for (const int port : {9000, 9070}) {
      EXPECT_EQ(who(pod, port), "attention, experts, gateway, operator, ");
    }
    for (const int port : {9001, 9071, 9200, 9455}) {
      EXPECT_EQ(who(pod, port), "attention, experts, ");
    }
    for (const int port : {8000, 9002, 9080, 9199, 9456}) EXPECT_EQ(who(pod, port), "") << port;
    EXPECT_EQ(who(pod, 9100), all);
  }
  EXPECT_EQ(who(gateway(service), 8000), all);
  EXPECT_EQ(who(gateway(service), 9000), "");
  EXPECT_EQ(who(worker(other, Role::kExperts), 9001), all) << "another service's are left alone";
}

TEST(NetworkPoliciesOf, AreOwnedOfTheirNamesAndSayNothingOfWhomPodsCall) {
  MoEService service = Chat();
  std::string names;
  for (const Child& child : NetworkPoliciesOf(service, kDefaults)) {
    names += KeyOf(child.object).ToString() + " ";
    EXPECT_EQ(Judge(service, child.object, child.object), Standing::kAsWanted);
    const Node& types = *FindAt(child.object, {"spec", "policyTypes"});
    ASSERT_EQ(types.items.size(), 1u);
    EXPECT_EQ(types.items[0].text, "Ingress");
  }
  EXPECT_EQ(names, "prod/chat-workers prod/chat-gateway ");
  service.spec.security.network_policy = false;
  EXPECT_TRUE(NetworkPoliciesOf(service, kDefaults).empty());
}

}  // namespace
}  // namespace janus::control
