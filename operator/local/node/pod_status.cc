#include "operator/local/node/pod_status.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/api/rfc3339.h"
#include "operator/kube/object.h"
#include "operator/reconcile/objects/trees.h"

namespace janus::control {
namespace {

Node Time(WallTime time) {
  return Text(FormatTime(time));
}

// 128 + n, as in shells and container runtimes.
constexpr int kSignalled = 128;

Node Terminated(const ContainerEnd& end) {
  Node out = Object(
      {{"exitCode", Node::Integer(end.signal != 0 ? kSignalled + end.signal : end.exit_code)}});
  if (end.signal != 0) out.Add("signal", Node::Integer(end.signal));
  out.Add("reason", Text(end.signal == 0 && end.exit_code == 0 ? "Completed" : "Error"));
  if (!end.message.empty()) out.Add("message", Text(end.message));
  out.Add("startedAt", Time(end.started));
  out.Add("finishedAt", Time(end.finished));
  return Object({{"terminated", std::move(out)}});
}

std::string Rounded(Seconds seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0fs", seconds.count());
  return text;
}

Node StateOf(const PodOnNode& seen, const Node& pod, MonotonicTime now) {
  if (seen.life.is_running()) {
    return Object({{"running", Object({{"startedAt", Time(seen.life.started())}})}});
  }
  if (seen.life.is_pausing(now)) {
    return Object(
        {{"waiting", Object({{"reason", Text("CrashLoopBackOff")},
                             {"message", Text("back-off " + Rounded(seen.life.pause()) +
                                              " restarting failed container=" + seen.run.name +
                                              " pod=" + KeyOf(pod).name)}})}});
  }
  if (seen.life.last_end()) return Terminated(*seen.life.last_end());
  return Object({{"waiting", Object({{"reason", Text("ContainerCreating")}})}});
}

Node ContainerStatus(const PodOnNode& seen, const Node& pod, MonotonicTime now) {
  Node out = Object({{"name", Text(seen.run.name)},
                     {"image", Text(seen.run.image)},
                     {"imageID", Text("")},
                     {"ready", Node::Bool(seen.is_ready)},
                     {"started", Node::Bool(seen.is_started)},
                     {"restartCount", Node::Integer(seen.life.restarts())},
                     {"state", StateOf(seen, pod, now)}});
  if (seen.life.last_end() && (seen.life.is_running() || seen.life.is_pausing(now))) {
    out.Add("lastState", Terminated(*seen.life.last_end()));
  }
  return out;
}

bool IsTrue(const std::vector<Node>& conditions, std::string_view type) {
  return std::any_of(conditions.begin(), conditions.end(), [&](const Node& one) {
    return TextAt(one, {"type"}) == type && TextAt(one, {"status"}) == "True";
  });
}

// Empty: all gates are true.
std::string FirstGateThatIsNot(const Node& pod, const std::vector<Node>& conditions) {
  const Node* const gates = FindAt(pod, {"spec", "readinessGates"});
  if (gates == nullptr) return "";
  for (const Node& gate : gates->items) {
    const std::string_view type = TextAt(gate, {"conditionType"});
    if (!IsTrue(conditions, type)) return std::string(type);
  }
  return "";
}

void SetCondition(std::vector<Node>& conditions, std::string_view type, bool holds,
                  std::string_view reason, const std::string& message, WallTime wall) {
  const std::string_view status = holds ? "True" : "False";
  Node said = Object({{"type", Text(type)}, {"status", Text(status)}});
  if (!reason.empty()) said.Add("reason", Text(reason));
  if (!message.empty()) said.Add("message", Text(message));
  const auto before = std::find_if(conditions.begin(), conditions.end(),
                                   [&](const Node& one) { return TextAt(one, {"type"}) == type; });
  if (before == conditions.end()) {
    said.Add("lastTransitionTime", Time(wall));
    conditions.push_back(std::move(said));
    return;
  }
  const bool is_as_before = TextAt(*before, {"status"}) == status;
  said.Add("lastTransitionTime",
           is_as_before ? Text(TextAt(*before, {"lastTransitionTime"})) : Time(wall));
  *before = std::move(said);
}

void SetContainersReady(std::vector<Node>& conditions, const Node& pod, const PodOnNode& seen,
                        WallTime wall) {
  if (!seen.is_ready) {
    const std::string message = "containers with unready status: [" + seen.run.name + "]";
    SetCondition(conditions, "ContainersReady", false, "ContainersNotReady", message, wall);
    SetCondition(conditions, "Ready", false, "ContainersNotReady", message, wall);
    return;
  }
  SetCondition(conditions, "ContainersReady", true, "", "", wall);
  const std::string gate = FirstGateThatIsNot(pod, conditions);
  if (gate.empty()) {
    SetCondition(conditions, "Ready", true, "", "", wall);
  } else {
    SetCondition(conditions, "Ready", false, "ReadinessGatesNotReady",
                 "the readiness gate " + gate + " is not True", wall);
  }
}

}  // namespace

Node WithStatus(const Node& pod, const PodOnNode& seen, MonotonicTime now, WallTime wall) {
  Node out = pod;
  std::vector<Node> conditions;
  if (const Node* const before = FindAt(pod, {"status", "conditions"})) conditions = before->items;
  SetCondition(conditions, "PodScheduled", true, "", "", wall);
  SetCondition(conditions, "Initialized", true, "", "", wall);
  SetContainersReady(conditions, pod, seen, wall);
  Node list = Node::List();
  list.items = std::move(conditions);
  // A container that has run once will be restarted.
  const bool has_run = seen.life.is_running() || seen.life.last_end();
  SetAt(out, {"status", "phase"}, Text(has_run ? "Running" : "Pending"));
  SetAt(out, {"status", "podIP"}, Text(seen.ip));
  SetAt(out, {"status", "podIPs"}, ListOf({Object({{"ip", Text(seen.ip)}})}));
  SetAt(out, {"status", "startTime"}, Time(seen.since));
  SetAt(out, {"status", "conditions"}, std::move(list));
  SetAt(out, {"status", "containerStatuses"}, ListOf({ContainerStatus(seen, pod, now)}));
  return out;
}

Node WithFailure(const Node& pod, const std::string& reason, const std::string& message,
                 WallTime wall) {
  Node out = pod;
  std::vector<Node> conditions;
  if (const Node* const before = FindAt(pod, {"status", "conditions"})) conditions = before->items;
  SetCondition(conditions, "ContainersReady", false, reason, message, wall);
  SetCondition(conditions, "Ready", false, reason, message, wall);
  Node list = Node::List();
  list.items = std::move(conditions);
  SetAt(out, {"status", "phase"}, Text("Failed"));
  SetAt(out, {"status", "reason"}, Text(reason));
  SetAt(out, {"status", "message"}, Text(message));
  SetAt(out, {"status", "conditions"}, std::move(list));
  return out;
}

}  // namespace janus::control
