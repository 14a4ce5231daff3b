#include "operator/reconcile/pods/pod_writer.h"

#include <utility>

#include "operator/api/rfc3339.h"
#include "operator/kube/object.h"
#include "operator/reconcile/children/creation.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"

namespace janus::control {
namespace {

ObjectKey KeyOfPod(const std::string& name, const PassContext& context) {
  return {context.service.metadata.namespace_, name};
}

// kTaken: one of that name was there before, ours or somebody else's.
enum class PodMade { kMade, kTaken, kRefused };

PodMade MakePod(const Node& pod, PassContext& context) {
  Creation creation = Create(kPods, pod, context);
  if (!creation.taken) return creation.is_made ? PodMade::kMade : PodMade::kRefused;
  if (IsControlledBy(*creation.taken, context.service.metadata.uid)) {
    context.writes.Wrote(kPods, "", *std::move(creation.taken), context.now);
  } else {
    RefuseAdoption("Pod " + KeyOf(pod).name, "; another name is tried", context);
  }
  return PodMade::kTaken;
}

// A call that changed a pod; false: it was refused. A pod that has gone needs no change.
bool TakeChange(ApiResult<Node> changed, const std::string& doing, PodSeen& pod,
                PassContext& context) {
  if (changed.ok()) {
    const std::string replaced =
        std::exchange(pod.version, std::string(ResourceVersionOf(*changed)));
    context.writes.Wrote(kPods, replaced, *std::move(changed), context.now);
    return true;
  }
  const StatusCode code = changed.error().code;
  if (code != StatusCode::kNotFound && code != StatusCode::kAborted) {
    context.refused.push_back(RefusalOf(changed.error(), doing + " of pod " + pod.name));
  }
  return false;
}

bool SetLabel(bool is_member, PodSeen& pod, PassContext& context) {
  const Node patch =
      Object({{"metadata",
               Object({{"labels", Object({{kMemberLabel, is_member ? Text("true") : Node()}})}})}});
  return TakeChange(context.api.Patch(kPods, KeyOfPod(pod.name, context), PatchKind::kMerge, patch,
                                      Subresource::kNone, {}, context.limits),
                    "label", pod, context);
}

// The readiness gate, and a member's label with it: one write for a pod that joins. Once that has
// set the label, an apply without it would take it away.
bool SetGate(bool is_member, WallTime wall, PodSeen& pod, PassContext& context) {
  const Node status = Object(
      {{"conditions", ListOf({Object({{"type", Text(kMemberCondition)},
                                      {"status", Text(is_member ? "True" : "False")},
                                      {"reason", Text(is_member ? "Committed" : "NotCommitted")},
                                      {"lastTransitionTime", Text(FormatTime(wall))}})})}});
  Node object =
      Object({{"apiVersion", Text("v1")},
              {"kind", Text("Pod")},
              {"metadata", Object({{"name", Text(pod.name)},
                                   {"namespace", Text(context.service.metadata.namespace_)},
                                   {"uid", Text(pod.uid)}})},
              {"status", status}});
  if (is_member) SetAt(object, {"metadata", "labels", kMemberLabel}, Text("true"));
  return TakeChange(context.api.Apply(kPods, object, Subresource::kStatus, {}, context.limits),
                    "readiness gate", pod, context);
}

}  // namespace

bool ReserveIds(const std::vector<PodOrder>& orders, const PinnedImage& pinned, Node& service_tree,
                PassContext& context) {
  Node next = service_tree;
  for (const PodOrder& order : orders) {
    SetLastPodId(next, order.role, LastPodId(service_tree, order.role) + order.count);
  }
  SetPinnedImage(next, pinned);
  ApiResult<Node> written =
      context.api.Update(kMoEServices, next, Subresource::kStatus, {}, context.limits);
  if (!written.ok()) {
    context.refused.push_back(RefusalOf(written.error(), "reserve names of pods"));
    return false;
  }
  const std::string replaced(ResourceVersionOf(service_tree));
  context.writes.Wrote(kMoEServices, replaced, *written, context.now);
  service_tree = *std::move(written);
  return true;
}

int64_t MakePods(const PodOrder& order, int64_t first, const OperatorDefaults& defaults,
                 PassContext& context) {
  std::vector<std::string> made;
  PodMade last = PodMade::kMade;
  int64_t id = first;
  while (last == PodMade::kMade && id < first + order.count) {
    const Node pod =
        WorkerPod(context.service, defaults, {order.role, order.revision, id, order.image});
    last = MakePod(pod, context);
    if (last == PodMade::kMade) made.emplace_back(TextAt(pod, {"metadata", "name"}));
    if (last != PodMade::kRefused) ++id;
  }
  if (made.empty()) return id;
  const std::string text = made.size() == 1 ? "made Pod " + made.front()
                                            : "made " + std::to_string(made.size()) + " Pods, " +
                                                  made.front() + " to " + made.back();
  context.tell({EventType::kNormal, "Create", {"Created", text}});
  return id;
}

std::set<std::string> MarkMembers(std::span<const PodSeen> pods,
                                  const std::set<std::string>& members, PassContext& context,
                                  WallTime wall) {
  std::set<std::string> truthful;
  for (const PodSeen& seen : pods) {
    if (context.is_stopped()) break;
    PodSeen pod = seen;  // its version moves with our writes
    const bool is_member = members.contains(pod.uid);
    const bool is_said = pod.is_leaving || pod.has_member_label == is_member;
    // A pod has no gate set before it was ever a member.
    const bool is_shut = !pod.is_leaving && pod.has_member_gate != is_member;
    if (is_member && is_shut) {
      if (SetGate(true, wall, pod, context)) truthful.insert(pod.uid);
      continue;
    }
    // Who leaves is no member for evictions and scalers first.
    if (is_said || SetLabel(is_member, pod, context)) truthful.insert(pod.uid);
    if (is_shut) SetGate(false, wall, pod, context);
  }
  return truthful;
}

void RemovePods(const std::vector<PodRemoval>& removals, const std::set<std::string>& unlabelled,
                PassContext& context) {
  for (const PodRemoval& removal : removals) {
    if (context.is_stopped()) return;
    if (!unlabelled.contains(removal.uid)) continue;
    DeleteOptions options;
    options.uid = removal.uid;
    const ApiResult<Node> gone =
        context.api.Delete(kPods, KeyOfPod(removal.name, context), options, context.limits);
    // One that is not there, though a cache shows it, is looked at again until none does.
    if (gone.ok()) {
      context.writes.Deleted(removal.uid);
      context.tell({EventType::kNormal,
                    "Delete",
                    {"Draining", "pod " + removal.name + ": " + removal.reason}});
    } else {
      context.refused.push_back(RefusalOf(gone.error(), "delete pod " + removal.name));
    }
  }
}

}  // namespace janus::control
