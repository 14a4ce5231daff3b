#include "tests/support/reconcile/scripted_cluster.h"

#include <gtest/gtest.h>

#include <utility>

#include "operator/api/rfc3339.h"
#include "operator/reconcile/model/fetch_pod.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"

namespace janus::control {
namespace {

const CallLimits kLimits;

Node Condition(std::string_view type, bool is_true, WallTime since) {
  return Object({{"type", Text(type)},
                 {"status", Text(is_true ? "True" : "False")},
                 {"lastTransitionTime", Text(FormatTime(since))}});
}

// Conditions of other writers stay.
void Put(Node& object, Node condition) {
  const Node* there = FindAt(object, {"status", "conditions"});
  Node list = there == nullptr ? Node::List() : *there;
  const std::string type(TextAt(condition, {"type"}));
  for (Node& one : list.items) {
    if (TextAt(one, {"type"}) != type) continue;
    if (TextAt(one, {"status"}) == TextAt(condition, {"status"}) &&
        TextAt(one, {"message"}) == TextAt(condition, {"message"})) {
      return;
    }
    one = std::move(condition);
    SetAt(object, {"status", "conditions"}, std::move(list));
    return;
  }
  list.items.push_back(std::move(condition));
  SetAt(object, {"status", "conditions"}, std::move(list));
}

bool IsTrue(const Node& object, std::string_view type) {
  const Node* list = FindAt(object, {"status", "conditions"});
  if (list == nullptr) return false;
  for (const Node& one : list->items) {
    if (TextAt(one, {"type"}) == type) return TextAt(one, {"status"}) == "True";
  }
  return false;
}

WallTime TimeAt(const Node& object, FieldPath path) {
  const auto time = ParseTime(TextAt(object, path));
  return time.ok() ? *time : WallTime{};
}

}  // namespace

ScriptedCluster::ScriptedCluster(const Clock& clock, LocalStore& store,
                                 std::vector<std::string> nodes)
    : clock_(clock), store_(store), nodes_(std::move(nodes)) {
  for (const std::string& name : nodes_) {
    Node node = Object({{"apiVersion", Text("v1")},
                        {"kind", Text("Node")},
                        {"metadata", Object({{"name", Text(name)}})}});
    EXPECT_TRUE(client_.Create(kNodes, node, {}, kLimits).ok());
  }
}

void ScriptedCluster::LoseNode(const std::string& name) {
  lost_.insert(name);
  Node node = *client_.Get(kNodes, {"", name}, Subresource::kNone, kLimits);
  SetAt(node, {"status", "conditions"},
        ListOf({Object({{"type", Text("Ready")},
                        {"status", Text("Unknown")},
                        {"lastTransitionTime", Text(FormatTime(clock_.WallNow()))}})}));
  EXPECT_TRUE(client_.Update(kNodes, node, Subresource::kStatus, {}, kLimits).ok());
}

void ScriptedCluster::Cordon(const std::string& name, bool is_cordoned) {
  Node node = *client_.Get(kNodes, {"", name}, Subresource::kNone, kLimits);
  SetAt(node, {"spec", "unschedulable"}, Node::Bool(is_cordoned));
  EXPECT_TRUE(client_.Update(kNodes, node, Subresource::kNone, {}, kLimits).ok());
  if (is_cordoned) {
    cordoned_.insert(name);
  } else {
    cordoned_.erase(name);
  }
}

int64_t ScriptedCluster::Version() {
  int64_t version = 0;
  store_.Do([&](LocalStore::Session& session) { version = session.tables.version(); });
  return version;
}

void ScriptedCluster::Step() {
  // Its own writes are examined in the next step.
  const int64_t version = Version();
  if (!is_due_ && version == seen_version_) return;
  seen_version_ = version;
  is_due_ = false;
  const ObjectList pods = *client_.List(kPods, {}, kLimits);
  for (const Node& pod : pods.items) StepPod(pod);
  const ObjectList deployments = *client_.List(kDeployments, {}, kLimits);
  for (const Node& deployment : deployments.items) StepDeployment(deployment);
}

void ScriptedCluster::Written(const ApiResult<Node>& result) {
  if (result.ok()) return;
  is_due_ = true;
  const StatusCode code = result.error().code;
  EXPECT_TRUE(code == StatusCode::kAborted || code == StatusCode::kNotFound)
      << result.error().message;
}

void ScriptedCluster::StepPod(Node pod) {
  // Pods of Jobs run in hub_service.h.
  if (TextAt(pod, {"metadata", "labels", "app.kubernetes.io/component"}) == kFetch) return;
  pods_ever_.emplace(UidOf(pod));
  const ObjectKey key = KeyOf(pod);
  const std::string node(TextAt(pod, {"spec", "nodeName"}));
  if (lost_.contains(node)) return;
  if (FindAt(pod, {"metadata", "deletionTimestamp"}) != nullptr) {
    // deletionTimestamp is the end of the grace period.
    const auto grace = IntegerAt(pod, {"metadata", "deletionGracePeriodSeconds"}).value_or(0);
    const WallTime asked =
        TimeAt(pod, {"metadata", "deletionTimestamp"}) - std::chrono::seconds(grace);
    if (asked + std::chrono::duration_cast<WallTime::duration>(end_time) > clock_.WallNow()) {
      is_due_ = true;
      return;
    }
    DeleteOptions options;
    options.grace_period_seconds = 0;
    Written(client_.Delete(kPods, key, options, kLimits));
    return;
  }
  if (node.empty()) return Place(pod);
  Run(pod);
}

void ScriptedCluster::Place(Node& pod) {
  const std::string role(TextAt(pod, {"metadata", "labels", kRoleLabel}));
  if (const auto full = full_.find(role); full != full_.end()) {
    const Node before = pod;
    Node condition = Condition("PodScheduled", false, clock_.WallNow());
    SetAt(condition, {"reason"}, Text("Unschedulable"));
    SetAt(condition, {"message"}, Text(full->second));
    Put(pod, std::move(condition));
    if (!Covers(before, pod)) {
      Written(client_.Update(kPods, pod, Subresource::kStatus, {}, kLimits));
    }
    return;
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const std::string& node = nodes_[(pods_ever_.size() + i) % nodes_.size()];
    if (lost_.contains(node) || cordoned_.contains(node)) continue;
    SetAt(pod, {"spec", "nodeName"}, Text(node));
    Written(client_.Update(kPods, pod, Subresource::kNone, {}, kLimits));
    return;
  }
}

bool ScriptedCluster::HasRestarted(const std::string& name) {
  const auto crashed = crashed_.find(name);
  if (crashed == crashed_.end()) return true;
  is_due_ = true;
  Crashed& crash = crashed->second;
  const auto part = std::chrono::duration_cast<WallTime::duration>(restart_time);
  if (clock_.WallNow() < crash.at + part) return false;
  if (!std::exchange(crash.is_counted, true)) ++restarts_[name];
  if (clock_.WallNow() < crash.at + 2 * part) return false;
  crashed_.erase(crashed);
  return true;
}

bool ScriptedCluster::IsKeptFromRunning(Node& pod) {
  const std::string role(TextAt(pod, {"metadata", "labels", kRoleLabel}));
  if (!TextAt(pod, {"status", "podIP"}).empty()) return false;  // it has run already
  if (TextAt(pod, {"status", "phase"}) == "Failed") return true;
  const Node before = pod;
  if (const auto refused = refused_.find(role);
      refused != refused_.end() && !refused->second.empty()) {
    SetAt(pod, {"status", "phase"}, Text("Failed"));
    SetAt(pod, {"status", "reason"}, Text(refused->second));
  } else if (const auto kept = unstartable_.find(role);
             kept != unstartable_.end() && !kept->second.first.empty()) {
    const Node* const containers = FindAt(pod, {"spec", "containers"});
    Node worker = Object(
        {{"name", Text(TextAt(containers->items.at(0), {"name"}))}, {"ready", Node::Bool(false)}});
    SetAt(worker, {"state", "waiting", "reason"}, Text(kept->second.first));
    SetAt(worker, {"state", "waiting", "message"}, Text(kept->second.second));
    SetAt(pod, {"status", "containerStatuses"}, ListOf({std::move(worker)}));
  } else {
    return false;
  }
  if (!Covers(before, pod)) Written(client_.Update(kPods, pod, Subresource::kStatus, {}, kLimits));
  return true;
}

void ScriptedCluster::Run(Node& pod) {
  if (IsKeptFromRunning(pod)) return;
  const std::string name = KeyOf(pod).name;
  const WallTime now = clock_.WallNow();
  if (TimeAt(pod, {"metadata", "creationTimestamp"}) +
          std::chrono::duration_cast<WallTime::duration>(start_time) >
      now) {
    is_due_ = true;
    return;
  }
  const Node before = pod;
  const auto crash_loop = crash_loops_.find(name);
  const bool is_started = HasRestarted(name) && crash_loop == crash_loops_.end();
  const bool is_well = is_started && !unready_.contains(name);
  SetAt(pod, {"status", "phase"}, Text("Running"));
  if (TextAt(pod, {"status", "podIP"}).empty()) {
    SetAt(pod, {"status", "podIP"}, Text("10.0.0." + std::to_string(++addresses_)));
  }
  Node worker = Object({{"name", Text("worker")},
                        {"restartCount", Node::Integer(restarts_[name])},
                        {"started", Node::Bool(is_started)},
                        {"ready", Node::Bool(is_well)}});
  if (crash_loop != crash_loops_.end()) {
    SetAt(worker, {"state", "waiting", "reason"}, Text("CrashLoopBackOff"));
    SetAt(worker, {"lastState", "terminated", "message"}, Text(crash_loop->second));
  }
  SetAt(pod, {"status", "containerStatuses"}, ListOf({worker}));
  Put(pod, Condition("ContainersReady", is_well, now));
  Put(pod, Condition("Ready", is_well && IsTrue(pod, kMemberCondition), now));
  // The store returns fields in a different order.
  if (Covers(pod, before) && Covers(before, pod)) return;
  Written(client_.Update(kPods, pod, Subresource::kStatus, {}, kLimits));
}

void ScriptedCluster::StepDeployment(Node deployment) {
  const auto wanted = gateways_run ? IntegerAt(deployment, {"spec", "replicas"}) : 0;
  const auto generation = IntegerAt(deployment, {"metadata", "generation"});
  if (IntegerAt(deployment, {"status", "availableReplicas"}) == wanted &&
      IntegerAt(deployment, {"status", "observedGeneration"}) == generation) {
    return;
  }
  for (const std::string_view count : {"replicas", "updatedReplicas", "availableReplicas"}) {
    SetAt(deployment, {"status", count}, Node::Integer(wanted.value_or(1)));
  }
  SetAt(deployment, {"status", "observedGeneration"}, Node::Integer(generation.value_or(0)));
  Written(client_.Update(kDeployments, deployment, Subresource::kStatus, {}, kLimits));
}

}  // namespace janus::control
