#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "common/clock.h"
#include "operator/api/tree.h"
#include "operator/reconcile/pods/pods.h"

namespace janus::control {

// A node of the cluster, as far as it says what becomes of its pods.
struct NodeSeen {
  std::string name;
  bool is_cordoned = false;
  // A taint with effect NoExecute that its administrator has set: its key. Taints that the
  // cluster sets itself, for a node that is unreachable or not ready, show in `silent_since`.
  std::string evicts = {};
  // Since when it has been silent; absent: it answers.
  std::optional<WallTime> silent_since = {};
};

// What of a node's tree decides.
NodeSeen ReadNode(const Node& node);

// How long a silent node may have been away only for a moment: a partition, a restart.
inline constexpr std::chrono::seconds kLostAfter{60};

// Marks each pod that its node makes leave, or has taken along: sets must_leave, where it is empty,
// and is_lost. A node that is not there any more is lost at once. Returns when
// the next node would be lost, if nothing else happens. Pure.
std::optional<WallTime> JudgeByNodes(const std::map<std::string, NodeSeen>& nodes, WallTime now,
                                     std::span<PodSeen> pods);

}  // namespace janus::control
