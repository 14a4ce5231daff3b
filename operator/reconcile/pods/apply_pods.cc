#include <string>
#include <utility>

#include "operator/api/rfc3339.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/pass/apply.h"

namespace janus::control {
namespace {

// The readiness gate and a member's label: one write for a pod that joins. Once that write has set
// the label, an apply without it would remove it.
Node GateOf(const PodSeen& pod, const std::string& ns, bool is_member, WallTime wall) {
  const Node status = Object(
      {{"conditions", ListOf({Object({{"type", Text(kMemberCondition)},
                                      {"status", Text(is_member ? "True" : "False")},
                                      {"reason", Text(is_member ? "Committed" : "NotCommitted")},
                                      {"lastTransitionTime", Text(FormatTime(wall))}})})}});
  Node out =
      Object({{"apiVersion", Text("v1")},
              {"kind", Text("Pod")},
              {"metadata",
               Object({{"name", Text(pod.name)}, {"namespace", Text(ns)}, {"uid", Text(pod.uid)}})},
              {"status", status}});
  if (is_member) SetAt(out, {"metadata", "labels", kMemberLabel}, Text("true"));
  return out;
}

Node LabelPatch(std::string_view label, Node value) {
  return Object({{"metadata", Object({{"labels", Object({{label, std::move(value)}})}})}});
}

}  // namespace

Applier::Result Applier::Carry(const ReservePodNames& action) {
  ApiResult<Node> written =
      pass_.api.Update(kMoEServices, action.next, Subresource::kStatus, {}, pass_.limits);
  if (!written.ok()) {
    may_make_pods_ = false;
    return Refused(CallOf(action), RefusalOf(written.error(), CallOf(action)));
  }
  pass_.memory.remembered.ids = action.ids;
  pass_.memory.writes.Wrote(kMoEServices, std::string(ResourceVersionOf(action.next)),
                            *std::move(written), pass_.now);
  return Result::kDone;
}

Applier::Result Applier::Carry(const MakePod& action) {
  if (!may_make_pods_ || refused_roles_.contains(action.role)) return Result::kNothing;
  const std::string call = CallOf(action);
  const std::string name = KeyOf(action.object).name;
  PodIds& ids = pass_.memory.remembered.ids[action.role == Role::kExperts];
  Making making = Make(call, kPods, action.object);
  if (making.made == Made::kRefused) {
    refused_roles_.insert(action.role);
    return Result::kDone;
  }
  ids.next = action.id + 1;
  if (making.made == Made::kMade) {
    made_pods_[action.role == Role::kExperts].push_back(name);
    return Result::kDone;
  }
  refused_roles_.insert(action.role);
  if (making.made == Made::kForeign) {
    return RefuseForeign(call, "Pod " + name, "; another name is tried");
  }
  pass_.memory.writes.Wrote(kPods, "", std::move(making.there), pass_.now);
  return Result::kDone;
}

// If the pod changed or is gone, no change is needed.
Applier::Result Applier::TakeChange(const std::string& call, ApiResult<Node> changed,
                                    const PodSeen& pod) {
  if (changed.ok()) {
    pass_.memory.writes.Wrote(kPods, pod.version, *std::move(changed), pass_.now);
    return Result::kDone;
  }
  const StatusCode code = changed.error().code;
  const bool is_silent = code == StatusCode::kNotFound || code == StatusCode::kAborted;
  pass_.Refuse(call, RefusalOf(changed.error(), call), is_silent);
  return Result::kDone;
}

Applier::Result Applier::Carry(const MarkPod& action) {
  using Change = MarkPod::Change;
  const PodSeen& pod = action.pod;
  const bool is_member = action.change == Change::kJoin || action.change == Change::kLabel;
  const std::string call = CallOf(action);
  if (action.change != Change::kJoin && action.change != Change::kShut) {
    const Node patch = action.change == Change::kPool
                           ? LabelPatch(kPoolLabel, Text(std::to_string(pod.pool)))
                           : LabelPatch(kMemberLabel, is_member ? Text("true") : Node());
    return TakeChange(call,
                      pass_.api.Patch(kPods, {pass_.key.namespace_, pod.name}, PatchKind::kMerge,
                                      patch, Subresource::kNone, {}, pass_.limits),
                      pod);
  }
  return TakeChange(call,
                    pass_.api.Apply(kPods, GateOf(pod, pass_.key.namespace_, is_member, pass_.wall),
                                    Subresource::kStatus, {}, pass_.limits),
                    pod);
}

Applier::Result Applier::Carry(const DeletePod& action) {
  const PodRemoval& removal = action.removal;
  if (Delete(kPods, {pass_.key.namespace_, removal.name}, removal.uid, CallOf(action))) {
    pass_.tell({EventType::kNormal,
                "Delete",
                {"Draining", "pod " + removal.name + ": " + removal.reason}});
  }
  return Result::kDone;
}

}  // namespace janus::control
