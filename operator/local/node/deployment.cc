#include "operator/local/node/deployment.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "common/fingerprint.h"
#include "operator/api/json.h"
#include "operator/kube/object.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"

namespace janus::control {
namespace {

constexpr std::string_view kHashLabel = "pod-template-hash";

std::string HashOf(const Node& deployment) {
  const Node* const found = FindAt(deployment, {"spec", "template"});
  return Fingerprint().Mix(found == nullptr ? "" : WriteJson(*found)).Hex().substr(0, 10);
}

Node OwnerOf(const Node& deployment) {
  return Object({{"apiVersion", Text("apps/v1")},
                 {"kind", Text("Deployment")},
                 {"name", Text(KeyOf(deployment).name)},
                 {"uid", Text(UidOf(deployment))},
                 {"controller", Node::Bool(true)},
                 {"blockOwnerDeletion", Node::Bool(true)}});
}

Node PodFrom(const Node& deployment, const std::string& name, const std::string& hash) {
  Node pod = *FindAt(deployment, {"spec", "template"});
  SetAt(pod, {"apiVersion"}, Text("v1"));
  SetAt(pod, {"kind"}, Text("Pod"));
  SetAt(pod, {"metadata", "name"}, Text(name));
  SetAt(pod, {"metadata", "namespace"}, Text(KeyOf(deployment).namespace_));
  SetAt(pod, {"metadata", "labels", kHashLabel}, Text(hash));
  SetAt(pod, {"metadata", "ownerReferences"}, ListOf({OwnerOf(deployment)}));
  return pod;
}

bool IsReady(const Node& pod) {
  const Node* const conditions = FindAt(pod, {"status", "conditions"});
  return conditions != nullptr &&
         std::any_of(conditions->items.begin(), conditions->items.end(), [](const Node& one) {
           return TextAt(one, {"type"}) == "Ready" && TextAt(one, {"status"}) == "True";
         });
}

}  // namespace

bool IsPodOf(const Node& deployment, const Node& pod) {
  return IsControlledBy(pod, UidOf(deployment));
}

DeploymentPlan PlanDeployment(const Node& deployment, std::span<const Node> pods) {
  const std::string hash = HashOf(deployment);
  const int64_t wanted = IntegerAt(deployment, {"spec", "replicas"}).value_or(1);
  DeploymentPlan plan;
  std::set<std::string> names;
  int64_t updated = 0, ready = 0, staying = 0;
  for (const Node& pod : pods) {
    const std::string name = KeyOf(pod).name;
    names.insert(name);
    if (FindAt(pod, {"metadata", "deletionTimestamp"}) != nullptr) continue;
    const bool is_new = TextAt(pod, {"metadata", "labels", kHashLabel}) == hash;
    if (!is_new || staying == wanted) {
      plan.remove.push_back(name);
      continue;
    }
    ++staying;
    ++updated;
    ready += IsReady(pod);
  }
  // Pods that are ending still hold ports and memory that the next ones need.
  const bool some_go = static_cast<int64_t>(pods.size()) > staying;
  for (int64_t number = 1; !some_go && staying < wanted; ++number) {
    const std::string name = KeyOf(deployment).name + "-" + hash + "-" + std::to_string(number);
    if (names.contains(name)) continue;
    plan.create.push_back(PodFrom(deployment, name, hash));
    ++staying;
  }
  plan.deployment = deployment;
  const auto set = [&](std::string_view field, int64_t value) {
    SetAt(plan.deployment, {"status", field}, Node::Integer(value));
  };
  set("observedGeneration", IntegerAt(deployment, {"metadata", "generation"}).value_or(0));
  set("replicas", static_cast<int64_t>(pods.size()));
  set("updatedReplicas", updated);
  set("readyReplicas", ready);
  set("availableReplicas", ready);
  set("unavailableReplicas", std::max<int64_t>(0, wanted - ready));
  return plan;
}

}  // namespace janus::control
