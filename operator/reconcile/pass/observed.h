#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "operator/api/moe_topology.h"
#include "operator/api/tree.h"
#include "operator/kube/object.h"
#include "operator/kube/resource.h"
#include "operator/reconcile/capacity/service_planner.h"
#include "operator/reconcile/epochs/epochs_seen.h"
#include "operator/reconcile/pass/refusal.h"
#include "operator/reconcile/pass/remembered.h"
#include "operator/reconcile/pods/pods.h"

namespace janus::control {

// A MoETopology of the service, and what this process knows of its epochs.
struct TopologySeen {
  Node record;
  // The record as it decides: an ended epoch is taken out into `ended`. Nothing: unreadable.
  std::optional<MoETopology> topology;
  std::optional<TopologyRecord> ended;
  std::string unreadable;  // the first field that cannot be read, and why
  // uids of the pods in what is committed, ended or not, and in what is proposed, as far as it can
  // be read.
  std::set<std::string> pods;
  EpochsSeen epochs;

  std::string name() const { return KeyOf(record).name; }
};

// A pod of the gateways.
struct GatewayPodSeen {
  std::string name;
  bool is_leaving = false;
  std::string why_not_running;  // empty: nothing keeps it
};

// An object with the name of one of ours that is neither pod nor topology; its owner may be
// another.
struct ChildSeen {
  Node object;
  bool is_deleted = false;  // this process has deleted it, and the cache does not show that yet
};
// By Resource::plural and name.
using ChildKey = std::pair<std::string, std::string>;

// Everything that decisions of a pass rest on, read in one go. Plain data: it holds no locks and
// refers to no cache, so a test can write it by hand and change any of it.
struct ServiceObserved {
  MonotonicTime now;
  WallTime wall;

  Node tree;  // the MoEService, newest
  std::vector<TopologySeen> topologies;
  std::vector<PodSeen> pods;   // of workers; what their nodes say of them is in must_leave, is_lost
  std::set<InstanceId> alive;  // instances of `pods` that could be members
  std::optional<WallTime> next_lost_node;  // when the next silent node counts as lost
  std::vector<GatewayPodSeen> gateway_pods;
  std::map<ChildKey, ChildSeen> children;  // of those names that the service uses

  // What is known of the model, as a snapshot: by the pods of the newest spec, and by those of the
  // model that a rollout replaces. Never null.
  std::shared_ptr<const ModelKnowledge> models;
  std::shared_ptr<const ModelKnowledge> old_models;

  std::vector<RefusedCall> refused;
  bool certificates_are_kept = false;  // in this pass
  Remembered remembered;

  ObjectKey key() const { return KeyOf(tree); }
  std::string uid() const { return std::string(UidOf(tree)); }
  // The child as it is known; null: there is none.
  const ChildSeen* Child(const Resource& resource, const std::string& name) const {
    const auto found = children.find({resource.plural, name});
    return found == children.end() ? nullptr : &found->second;
  }
  const RefusedCall* RefusalOfCall(const std::string& call) const {
    for (const RefusedCall& one : refused) {
      if (one.call == call) return &one;
    }
    return nullptr;
  }
  bool HasRefusals() const {
    for (const RefusedCall& one : refused) {
      if (one.is_of_this_pass && !one.is_silent) return true;
    }
    return false;
  }
};

}  // namespace janus::control
