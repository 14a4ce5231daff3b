#include <optional>
#include <string>
#include <utility>

#include "operator/reconcile/children/adoption.h"
#include "operator/reconcile/children/apply_takeover.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/pass/apply.h"

namespace janus::control {

Applier::Result Applier::Carry(const MakeChild& action) {
  const ObjectKey key = KeyOf(action.object);
  const std::string what = action.resource->kind + " " + key.name;
  const std::string call = CallOf(action);
  Making making = Make(call, *action.resource, action.object);
  switch (making.made) {
    case Made::kMade:
      made_children_ += (made_children_.empty() ? "" : ", ") + what;
      return Result::kDone;
    case Made::kOurs:
      // The reply to its creation was lost, and the cache does not show it yet.
      if (FindAt(making.there, {"metadata", "deletionTimestamp"}) != nullptr) {
        pass_.Refuse(call, {}, true);
      } else {
        pass_.memory.writes.Wrote(*action.resource, "", std::move(making.there), pass_.now);
      }
      return Result::kDone;
    case Made::kForeign:
      return RefuseForeign(call, what, AdoptionRemedy(making.there, pass_.key.name));
    case Made::kRefused:
      break;
  }
  return Result::kDone;
}

// Makes us the applier of an object that we created by POST. Otherwise an apply would never remove
// a field that is no longer wanted. Returns the version for the apply; nothing: refused.
std::optional<std::string> Applier::TakeOver(const ApplyChild& action) {
  const Resource& resource = *action.child.resource;
  const ObjectKey key = KeyOf(action.child.object);
  const std::string call = CallOf(action);
  std::string version(ResourceVersionOf(action.there));
  const ApiResult<Node> whole = pass_.api.Get(resource, key, Subresource::kNone, pass_.limits);
  if (!whole.ok()) {
    Refused(call, RefusalOf(whole.error(), "read " + resource.kind + " " + key.name));
    return std::nullopt;
  }
  // Replaced by another object: the server refuses the apply, which has the old uid.
  if (UidOf(*whole) != UidOf(action.there)) return version;
  const std::optional<Node> patch = TakeoverPatch(*whole);
  if (!patch) return version;
  ApiResult<Node> taken = pass_.api.Patch(resource, key, PatchKind::kJson, *patch,
                                          Subresource::kNone, {}, pass_.limits);
  if (!taken.ok()) {
    Refused(call, RefusalOf(taken.error(), call));
    return std::nullopt;
  }
  const std::string replaced = std::exchange(version, std::string(ResourceVersionOf(*taken)));
  pass_.memory.writes.Wrote(resource, replaced, *std::move(taken), pass_.now);
  return version;
}

// An apply keeps list items of other managers, and the server may refuse ours beside them: if a
// user changed a port's number, it still has our port's name. So the spec's lists are replaced
// whole.
ApiResult<Node> Applier::ReplaceLists(const Child& child, const Node& object) {
  const Node patch = Object({{"metadata", Object({{"uid", *FindAt(object, {"metadata", "uid"})}})},
                             {"spec", *object.Find("spec")}});
  return pass_.api.Patch(*child.resource, KeyOf(object), PatchKind::kMerge, patch,
                         Subresource::kNone, {}, pass_.limits);
}

Applier::Result Applier::Carry(const ApplyChild& action) {
  const Child& child = action.child;
  const Resource& resource = *child.resource;
  const std::string name = KeyOf(child.object).name;
  const std::string call = CallOf(action);
  const auto tell = [&] {
    pass_.tell({EventType::kNormal,
                "Update",
                {"Updated", resource.kind + " " + name + " is as wanted again"}});
  };
  // Fields of `first` beyond the maintained ones must stay.
  std::optional<std::string> replaced =
      child.first ? std::string(ResourceVersionOf(action.there)) : TakeOver(action);
  if (!replaced) return Result::kDone;
  Node object = child.object;
  SetAt(object, {"metadata", "uid"}, Text(UidOf(action.there)));
  ApiResult<Node> applied = pass_.api.Apply(resource, object, Subresource::kNone, {}, pass_.limits);
  const bool is_refused = !applied.ok() && applied.error().http_status == 422;
  if (is_refused && !child.first && object.Find("spec") != nullptr) {
    ApiResult<Node> patched = ReplaceLists(child, object);
    if (patched.ok()) {
      const std::string before = std::exchange(*replaced, std::string(ResourceVersionOf(*patched)));
      pass_.memory.writes.Wrote(resource, before, *std::move(patched), pass_.now);
      tell();
      applied = pass_.api.Apply(resource, object, Subresource::kNone, {}, pass_.limits);
    }
  }
  if (!applied.ok()) return Refused(call, RefusalOf(applied.error(), call), true);
  pass_.memory.refusals.Done(call);
  const std::string version(ResourceVersionOf(*applied));
  pass_.memory.remembered.mended[{resource.plural, name}] = version;
  if (version != *replaced) tell();
  pass_.memory.writes.Wrote(resource, *replaced, *std::move(applied), pass_.now);
  return Result::kDone;
}

Applier::Result Applier::Carry(const DeleteChild& action) {
  if (Delete(*action.resource, action.key, action.uid, CallOf(action))) {
    pass_.tell({EventType::kNormal,
                "Delete",
                {"Deleted", action.resource->kind + " " + action.key.name + ": " + action.why}});
  }
  return Result::kDone;
}

Applier::Result Applier::Carry(const RefuseAdoption& action) {
  return RefuseForeign(action.call, action.what, action.remedy);
}

}  // namespace janus::control
