#include "operator/reconcile/pods/nodes.h"

#include <algorithm>

#include "operator/api/rfc3339.h"
#include "operator/kube/object.h"

namespace janus::control {
namespace {

// The well-known taints of the node lifecycle (Kubernetes: "Well-Known Labels, Annotations and
// Taints").
bool IsOfLifecycle(std::string_view taint) {
  return taint == "node.kubernetes.io/unreachable" || taint == "node.kubernetes.io/not-ready";
}

}  // namespace

NodeSeen ReadNode(const Node& node) {
  NodeSeen out;
  out.name = TextAt(node, {"metadata", "name"});
  const Node* cordoned = FindAt(node, {"spec", "unschedulable"});
  out.is_cordoned = cordoned != nullptr && cordoned->boolean;
  if (const Node* taints = FindAt(node, {"spec", "taints"})) {
    for (const Node& taint : taints->items) {
      const std::string_view key = TextAt(taint, {"key"});
      if (TextAt(taint, {"effect"}) == "NoExecute" && !IsOfLifecycle(key)) out.evicts = key;
    }
  }
  if (const Node* conditions = FindAt(node, {"status", "conditions"})) {
    for (const Node& one : conditions->items) {
      if (TextAt(one, {"type"}) != "Ready" || TextAt(one, {"status"}) != "Unknown") continue;
      const auto since = ParseTime(TextAt(one, {"lastTransitionTime"}));
      if (since.ok()) out.silent_since = *since;
    }
  }
  return out;
}

std::optional<WallTime> JudgeByNodes(const std::map<std::string, NodeSeen>& nodes, WallTime now,
                                     std::span<PodSeen> pods) {
  std::optional<WallTime> next;
  for (PodSeen& pod : pods) {
    if (pod.node.empty()) continue;
    const auto found = nodes.find(pod.node);
    if (found == nodes.end()) {
      pod.is_lost = true;
      continue;
    }
    const NodeSeen& node = found->second;
    if (node.silent_since) {
      const WallTime lost_at = *node.silent_since + kLostAfter;
      pod.is_lost = lost_at <= now;
      if (!pod.is_lost) next = next ? std::min(*next, lost_at) : lost_at;
    }
    if (!pod.must_leave.empty()) continue;
    if (!node.evicts.empty()) {
      pod.must_leave = "node " + node.name + " has taint " + node.evicts + ":NoExecute";
    } else if (node.is_cordoned) {
      pod.must_leave = "node " + node.name + " is cordoned";
    }
  }
  return next;
}

}  // namespace janus::control
