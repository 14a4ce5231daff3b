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

// The state of a node that matters to its pods.
struct NodeSeen {
  std::string name;
  bool is_cordoned = false;
  // Key of a NoExecute taint set by an administrator. Taints that the cluster sets for an
  // unreachable or unready node show in `silent_since`.
  std::string evicts = {};
  // Silent since then; absent: it responds.
  std::optional<WallTime> silent_since = {};
};

// Reads the fields of a node that decisions use.
NodeSeen ReadNode(const Node& node);

// A silent node may return within this time, as after a partition or a restart.
inline constexpr std::chrono::seconds kLostAfter{60};

// Sets must_leave, if empty, and is_lost of each pod from the state of its node. A deleted node is
// lost at once. Returns when the next node will count as lost, if nothing else happens. Pure.
std::optional<WallTime> JudgeByNodes(const std::map<std::string, NodeSeen>& nodes, WallTime now,
                                     std::span<PodSeen> pods);

}  // namespace janus::control
