#include <map>
#include <set>
#include <utility>

#include "common/fingerprint.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/pass/one_pass.h"

namespace janus::control {
namespace {

// A cache that has not shown for so long what we made: ask the server.
constexpr std::chrono::seconds kCacheLag{60};

}  // namespace

bool Reconciler::OnePass::ResolveDoubts() {
  memory_.writes.DoubtOlderThan(now_ - kCacheLag);
  const std::set<OwnWrites::Place> doubts = memory_.writes.unresolved();
  for (const OwnWrites::Place& place : doubts) {
    ApiResult<Node> there =
        owner_.api_.Get(*place.first, place.second, Subresource::kNone, limits_);
    if (there.ok()) {
      const bool ours = IsControlledBy(*there, memory_.uid);
      memory_.writes.Resolve(place, ours ? std::optional(*std::move(there)) : std::nullopt, now_);
    } else if (there.error().code == StatusCode::kNotFound) {
      memory_.writes.Resolve(place, std::nullopt, now_);
    } else {
      refused_.push_back(
          RefusalOf(there.error(), "read " + place.first->kind + " " + place.second.name));
      return false;
    }
  }
  return true;
}

// Nothing: there is none. The cache of nodes may lag behind the one of pods, and a pod is not given
// up for a node that is only new: what the cache lacks the server is asked for.
std::optional<NodeSeen> Reconciler::OnePass::FindNode(const PodSeen& pod) {
  const ObjectKey key{"", pod.node};
  if (const auto cached = owner_.caches_.nodes.Get(key)) return ReadNode(*cached);
  if (pod.is_leaving) return std::nullopt;
  const ApiResult<Node> there = owner_.api_.Get(kNodes, key, Subresource::kNone, limits_);
  if (there.ok()) return ReadNode(*there);
  if (there.error().code == StatusCode::kNotFound) return std::nullopt;
  refused_.push_back(RefusalOf(there.error(), "read node " + pod.node));
  NodeSeen unknown;
  unknown.name = pod.node;
  return unknown;
}

void Reconciler::OnePass::ReadWorld() {
  const ObjectKey key = KeyOf(tree_);
  const std::string index = key.namespace_ + "/" + key.name;
  const Caches& caches = owner_.caches_;
  std::set<std::string> there;
  std::vector<PodSeen> all;
  for (const Node& node : memory_.writes.NewestOf(kPods, caches.pods.Find(kByService, index))) {
    there.emplace(UidOf(node));
    if (!IsControlledBy(node, memory_.uid)) continue;
    std::optional<PodSeen> pod = ReadPod(node);
    if (!pod) continue;
    pod->is_leaving = pod->is_leaving || memory_.writes.IsDeleted(pod->uid);
    all.push_back(*std::move(pod));
  }
  // What is made may have another shape after an edit, and where a pod has gone there is room.
  Fingerprint world;
  world.Mix(static_cast<uint64_t>(IntegerAt(tree_, {"metadata", "generation"}).value_or(0)));
  for (const std::string& uid : there) world.Mix(uid);
  memory_.refusals.See(world.value());
  for (const Node& budget : caches.budgets.Find(kByService, index)) there.emplace(UidOf(budget));
  for (const Node& scaler : caches.scalers.Find(kByService, index)) there.emplace(UidOf(scaler));
  std::vector<Node> records;
  for (Node& node :
       memory_.writes.NewestOf(kTopologies, caches.topologies.Find(kByService, index))) {
    there.emplace(UidOf(node));
    if (!IsControlledBy(node, memory_.uid)) continue;
    if (FindAt(node, {"metadata", "deletionTimestamp"}) != nullptr) continue;
    if (memory_.writes.IsDeleted(std::string(UidOf(node)))) continue;
    records.push_back(std::move(node));
  }
  memory_.writes.ForgetDeleted(there);
  for (RolePass& role : roles_) {
    const ObjectKey name{key.namespace_, RoleObjectName(key.name, role.role)};
    std::optional<Node> scaler =
        memory_.writes.Newest(kRoleScalers, name, caches.scalers.Get(name));
    if (!scaler || !IsControlledBy(*scaler, memory_.uid)) continue;
    if (!memory_.writes.IsDeleted(std::string(UidOf(*scaler)))) role.scaler = std::move(scaler);
  }
  std::map<std::string, NodeSeen> nodes;
  for (const PodSeen& pod : all) {
    if (pod.node.empty() || nodes.contains(pod.node)) continue;
    if (std::optional<NodeSeen> node = FindNode(pod)) nodes[pod.node] = *std::move(node);
  }
  if (const std::optional<WallTime> lost = JudgeByNodes(nodes, wall_, all)) {
    BringForward(again_, At(now_, *lost - wall_));
  }
  for (const std::string& name : memory_.departures.Look(all)) {
    Tell({EventType::kNormal, "Delete", {"Drained", "pod " + name + " has ended and is gone"}});
  }
  alive_ = AliveInstances(all);
  TakeSides(std::move(records), std::move(all));
}

}  // namespace janus::control
