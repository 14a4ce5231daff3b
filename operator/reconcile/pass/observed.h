#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "operator/api/hardware_profile.h"
#include "operator/api/moe_topology.h"
#include "operator/api/tree.h"
#include "operator/kube/object.h"
#include "operator/kube/resource.h"
#include "operator/reconcile/capacity/service_planner.h"
#include "operator/reconcile/epochs/epochs_seen.h"
#include "operator/reconcile/model/fetch_seen.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/pass/refusal.h"
#include "operator/reconcile/pass/remembered.h"
#include "operator/reconcile/pods/pods.h"

namespace janus::control {

// A MoETopology of the service, and what this process knows of its epochs.
struct TopologySeen {
  Node record;
  // The record for decisions, with an ended epoch moved to `ended`. Nothing: unreadable.
  std::optional<MoETopology> topology;
  std::optional<TopologyRecord> ended;
  std::string unreadable;  // the first unreadable field, and why
  // uids of the pods in the committed (ended or not) and the proposed epoch, as far as readable.
  std::set<std::string> pods;
  EpochsSeen epochs;

  std::string name() const { return KeyOf(record).name; }
  int pool() const { return PoolOf(record); }
};

// A HorizontalPodAutoscaler of one of the service's MoERoleScalers, whether that exists or not.
struct AutoscalerSeen {
  std::string name;
  Role role = Role::kAttention;
};

// A gateway's pod.
struct GatewayPodSeen {
  std::string name;
  bool is_leaving = false;
  std::string why_not_running;  // empty: no known reason
  std::string node = {};        // empty: not scheduled yet
  bool must_leave = false;      // its node is cordoned, or evicts
};

// An object with one of our names that is neither a pod nor a topology; it may have another owner.
struct ChildSeen {
  Node object;
  bool is_deleted = false;  // this process deleted it, but the cache still shows it
};
// By Resource::plural and name.
using ChildKey = std::pair<std::string, std::string>;

// Everything that the decisions of a pass need, read once. Plain data without locks or references
// to caches, so that a test can write or change it.
struct ServiceObserved {
  MonotonicTime now;
  WallTime wall;

  int pool = 1;  // of a part (pools/pools.h)
  Node tree;     // the newest MoEService
  std::vector<TopologySeen> topologies;
  std::vector<PodSeen> pods;         // of workers; must_leave and is_lost come from their nodes
  std::vector<PodSeen> other_pools;  // of a part: the workers' pods of all other pools
  std::set<InstanceId> alive;        // instances of all pods that could be members
  std::optional<WallTime> next_lost_node;  // when the next silent node counts as lost
  std::vector<GatewayPodSeen> gateway_pods;
  std::vector<FetchJobSeen> fetch_jobs;  // of the service
  std::vector<AutoscalerSeen> autoscalers;
  std::map<ChildKey, ChildSeen> children;  // those with names that the service uses

  // Snapshots of what is known of the model: from pods of the newest spec, and from pods of the
  // model that a rollout replaces. Never null.
  std::shared_ptr<const ModelKnowledge> models;
  std::shared_ptr<const ModelKnowledge> old_models;

  std::vector<HardwareProfileObject> profiles;  // of the cluster, as far as they can be read

  std::vector<RefusedCall> refused;
  bool certificates_are_kept = false;  // done in this pass
  // Another release of the operator that asks for the service, and until when it counts.
  std::string rival;
  std::optional<MonotonicTime> rival_until;
  Remembered remembered;

  ObjectKey key() const { return KeyOf(tree); }
  std::string uid() const { return std::string(UidOf(tree)); }
  // The newest known state of the child; null: it does not exist.
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
