#include "operator/reconcile/children/child_writer.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "operator/reconcile/children/apply_takeover.h"
#include "operator/reconcile/children/creation.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"

namespace janus::control {
namespace {

// What was made by POST is nobody's by server-side apply, which would leave there for ever what is
// not wanted any more. The version to apply over; nothing: it cannot be told.
std::optional<std::string> TakeOver(const Child& child, const Node& there, PassContext& context) {
  const ObjectKey key = KeyOf(child.object);
  const std::string what = child.resource->kind + " " + key.name;
  std::string version(ResourceVersionOf(there));
  const ApiResult<Node> whole =
      context.api.Get(*child.resource, key, Subresource::kNone, context.limits);
  if (!whole.ok()) {
    context.refused.push_back(RefusalOf(whole.error(), "read " + what));
    return std::nullopt;
  }
  // Another one by now: the apply, which names who was judged, is refused.
  if (UidOf(*whole) != UidOf(there)) return version;
  const std::optional<Node> patch = TakeoverPatch(*whole);
  if (!patch) return version;
  ApiResult<Node> handed = context.api.Patch(*child.resource, key, PatchKind::kJson, *patch,
                                             Subresource::kNone, {}, context.limits);
  if (!handed.ok()) {
    context.refused.push_back(RefusalOf(handed.error(), "apply " + what));
    return std::nullopt;
  }
  const std::string replaced = std::exchange(version, std::string(ResourceVersionOf(*handed)));
  context.writes.Wrote(*child.resource, replaced, *std::move(handed), context.now);
  return version;
}

// Of a list's items an apply keeps those of others, and beside one of them ours may not stand: a
// port that somebody gave another number has the name of ours still. The spec's lists whole.
ApiResult<Node> ReplaceLists(const Child& child, const Node& object, PassContext& context) {
  const Node patch = Object({{"metadata", Object({{"uid", *FindAt(object, {"metadata", "uid"})}})},
                             {"spec", *object.Find("spec")}});
  return context.api.Patch(*child.resource, KeyOf(object), PatchKind::kMerge, patch,
                           Subresource::kNone, {}, context.limits);
}

// `there`: what was judged, and no other object.
void Apply(const Child& child, const Node& there, MendedVersions& mended, PassContext& context) {
  const ObjectKey key = KeyOf(child.object);
  const std::string what = child.resource->kind + " " + key.name;
  const std::string doing = "apply " + what;
  if (std::optional<Refusal> refused = context.refusals.Standing(doing, context.now)) {
    context.refused.push_back(*std::move(refused));
    return;
  }
  // What `first` says beyond what is kept up is never taken away.
  std::optional<std::string> replaced =
      child.first ? std::string(ResourceVersionOf(there)) : TakeOver(child, there, context);
  if (!replaced) return;
  Node object = child.object;
  SetAt(object, {"metadata", "uid"}, Text(UidOf(there)));
  ApiResult<Node> applied =
      context.api.Apply(*child.resource, object, Subresource::kNone, {}, context.limits);
  const bool is_refused = !applied.ok() && applied.error().http_status == 422;
  if (is_refused && !child.first && object.Find("spec") != nullptr) {
    ApiResult<Node> patched = ReplaceLists(child, object, context);
    if (patched.ok()) {
      const std::string before = std::exchange(*replaced, std::string(ResourceVersionOf(*patched)));
      context.writes.Wrote(*child.resource, before, *std::move(patched), context.now);
      context.tell({EventType::kNormal, "Update", {"Updated", what + " is as wanted again"}});
      applied = context.api.Apply(*child.resource, object, Subresource::kNone, {}, context.limits);
    }
  }
  if (!applied.ok()) {
    context.refused.push_back(RefusalOf(applied.error(), doing));
    if (CanWait(context.refused.back())) {
      context.refusals.Refused(doing, context.refused.back(), context.now);
    }
    return;
  }
  context.refusals.Done(doing);
  const std::string version(ResourceVersionOf(*applied));
  mended[{child.resource->plural, key.name}] = version;
  if (version != *replaced) {
    context.tell({EventType::kNormal, "Update", {"Updated", what + " is as wanted again"}});
  }
  context.writes.Wrote(*child.resource, *replaced, *std::move(applied), context.now);
}

// Of a MoEService that had the name before: it goes by itself.
bool IsOfThatName(const Node& there, const MoEService& service) {
  const Node* const owners = FindAt(there, {"metadata", "ownerReferences"});
  return owners != nullptr &&
         std::any_of(owners->items.begin(), owners->items.end(), [&](const Node& one) {
           return TextAt(one, {"kind"}) == kMoEServices.kind &&
                  TextAt(one, {"name"}) == service.metadata.name;
         });
}

// `is_known`: a cache shows it, and will show when it goes; else the server is asked again.
void RefuseName(const std::string& what, const Node& there, bool is_known, PassContext& context) {
  const std::string doing = (is_known ? "adopt " : "create ") + what;
  if (std::optional<Refusal> refused = context.refusals.Standing(doing, context.now)) {
    context.refused.push_back(*std::move(refused));
    return;
  }
  RefuseAdoption(what,
                 IsOfThatName(there, context.service)
                     ? "; it is of a MoEService that had this name before, and goes by itself"
                     : "; delete it, or give this MoEService another name",
                 context);
  context.refusals.Refused(doing, context.refused.back(), context.now);
}

// `made`: the names of what is there now and was not before.
void WriteOne(const Child& child, MendedVersions& mended, std::string& made, PassContext& context) {
  const ObjectKey key = KeyOf(child.object);
  const std::string what = child.resource->kind + " " + key.name;
  std::optional<Node> there =
      context.writes.Newest(*child.resource, key, context.caches.Of(*child.resource).Get(key));
  const bool is_known = there.has_value();
  if (!there) {
    Creation creation = Create(*child.resource, child.first ? *child.first : child.object, context);
    if (creation.is_made) made += (made.empty() ? "" : ", ") + what;
    if (!creation.taken) return;
    there = std::move(creation.taken);
  }
  const auto settled = mended.find({child.resource->plural, key.name});
  switch (Judge(context.service, *there, child.object)) {
    case Standing::kAsWanted:
    case Standing::kLeaving:
      return;
    case Standing::kForeign:
      RefuseName(what, *there, is_known, context);
      return;
    case Standing::kDrifted:
      if (settled != mended.end() && settled->second == ResourceVersionOf(*there) &&
          TextAt(*there, {"metadata", "annotations", kWantedAnnotation}) ==
              TextAt(child.object, {"metadata", "annotations", kWantedAnnotation})) {
        return;
      }
      Apply(child, *there, mended, context);
  }
}

// `names`: of all that there may ever be of `resource`.
void DeleteUnwanted(const Resource& resource, const std::vector<std::string>& names,
                    const char* why, const std::vector<Child>& wanted, PassContext& context) {
  std::set<std::string> kept;
  for (const Child& child : wanted) {
    if (child.resource == &resource) kept.insert(KeyOf(child.object).name);
  }
  const MoEService& service = context.service;
  for (const std::string& name : names) {
    if (kept.contains(name)) continue;
    const ObjectKey key{service.metadata.namespace_, name};
    const std::optional<Node> there =
        context.writes.Newest(resource, key, context.caches.Of(resource).Get(key));
    if (!there || !IsControlledBy(*there, service.metadata.uid) ||
        context.writes.IsDeleted(std::string(UidOf(*there)))) {
      continue;
    }
    DeleteOptions options;
    options.uid = std::string(UidOf(*there));
    const std::string what = resource.kind + " " + key.name;
    const ApiResult<Node> gone = context.api.Delete(resource, key, options, context.limits);
    // A cache shows what is not there: looked at again, and believed once it does not.
    if (gone.ok()) {
      context.writes.Deleted(*options.uid);
      context.tell({EventType::kNormal, "Delete", {"Deleted", what + ": " + why}});
    } else {
      context.refused.push_back(RefusalOf(gone.error(), "delete " + what));
    }
  }
}

}  // namespace

void WriteChildren(const std::vector<Child>& wanted, MendedVersions& mended, PassContext& context) {
  std::string made;  // all of a pass in one Event
  for (const Child& child : wanted) {
    WriteOne(child, mended, made, context);
    if (context.is_stopped()) break;
  }
  if (!made.empty()) context.tell({EventType::kNormal, "Create", {"Created", "made " + made}});
  if (context.is_stopped()) return;
  const std::string& service = context.service.metadata.name;
  const std::vector<std::string> of_roles = {RoleObjectName(service, Role::kAttention),
                                             RoleObjectName(service, Role::kExperts)};
  DeleteUnwanted(kDisruptionBudgets, of_roles, "the role has no members", wanted, context);
  DeleteUnwanted(kRoleScalers, of_roles, "the role is in mode External no more", wanted, context);
  DeleteUnwanted(kNetworkPolicies, {WorkersPolicyName(service), GatewayName(service)},
                 "security.networkPolicy asks for none", wanted, context);
}

}  // namespace janus::control
