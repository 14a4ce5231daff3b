#include "operator/reconcile/child_writer.h"

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "operator/reconcile/names.h"
#include "operator/reconcile/owned.h"
#include "operator/reconcile/trees.h"

namespace janus::control {
namespace {

// The child as it is: of cache, own writes or server. Trouble: nobody can tell.
struct Found {
  bool is_known = false;
  std::optional<Node> object;
};

Found Find(const Child& child, PassContext& context) {
  const ObjectKey key = KeyOf(child.object);
  Found out;
  out.object =
      context.writes.Newest(*child.resource, key, context.caches.Of(*child.resource).Get(key));
  out.is_known = true;
  if (out.object) return out;
  ApiResult<Node> there = context.api.Get(*child.resource, key, Subresource::kNone, context.limits);
  if (there.ok()) {
    out.object = *std::move(there);
  } else if (there.error().code != StatusCode::kNotFound) {
    out.is_known = false;
    context.troubles.push_back(
        TroubleOf(there.error(), "read " + child.resource->kind + " " + key.name));
  }
  return out;
}

void RefuseAdoption(const Child& child, PassContext& context) {
  const std::string name = child.resource->kind + " " + KeyOf(child.object).name;
  const std::string text =
      name + " belongs to somebody else and is left as it is; rename it, or this MoEService";
  context.note({EventType::kWarning, "AdoptRefused", "Apply", text});
  context.troubles.push_back({TroubleKind::kRetry, "AdoptRefused", text, {}});
}

// True when it was not there before.
bool Apply(const Child& child, const std::optional<Node>& there, MendedVersions& mended,
           PassContext& context) {
  const ObjectKey key = KeyOf(child.object);
  const std::string what = child.resource->kind + " " + key.name;
  Node object = child.object;
  // Only the object that was judged.
  if (there) SetAt(object, {"metadata", "uid"}, Text(UidOf(*there)));
  ApiResult<Node> applied =
      context.api.Apply(*child.resource, object, Subresource::kNone, {}, context.limits);
  if (!applied.ok()) {
    if (!there && applied.error().outcome_unknown) {
      context.writes.MayHaveMade(*child.resource, key);
    }
    context.troubles.push_back(TroubleOf(applied.error(), "apply " + what));
    return false;
  }
  const std::string replaced(there ? ResourceVersionOf(*there) : "");
  const std::string version(ResourceVersionOf(*applied));
  mended[{child.resource->plural, key.name}] = version;
  if (there && version != replaced) {
    context.note({EventType::kNormal, "Updated", "Update", what + " is as wanted again"});
  }
  context.writes.Wrote(*child.resource, replaced, *std::move(applied), context.now);
  return !there;
}

// What is only to be begun with: nobody's who has made one of that name meanwhile. True: it is
// made.
bool Make(const Child& child, PassContext& context) {
  const ObjectKey key = KeyOf(child.object);
  const std::string what = child.resource->kind + " " + key.name;
  ApiResult<Node> made = context.api.Create(*child.resource, *child.first, {}, context.limits);
  if (!made.ok()) {
    if (made.error().outcome_unknown) context.writes.MayHaveMade(*child.resource, key);
    context.troubles.push_back(TroubleOf(made.error(), "create " + what));
    return false;
  }
  context.writes.Wrote(*child.resource, "", *std::move(made), context.now);
  return true;
}

// True when it is there now and was not before.
bool WriteOne(const Child& child, MendedVersions& mended, PassContext& context) {
  const Found found = Find(child, context);
  if (!found.is_known) return false;
  if (!found.object) {
    if (child.first) return Make(child, context);
    return Apply(child, std::nullopt, mended, context);
  }
  const auto settled = mended.find({child.resource->plural, KeyOf(child.object).name});
  switch (Judge(context.service, *found.object, child.object)) {
    case Standing::kAsWanted:
    case Standing::kLeaving:
      return false;
    case Standing::kForeign:
      RefuseAdoption(child, context);
      return false;
    case Standing::kDrifted:
      if (settled != mended.end() && settled->second == ResourceVersionOf(*found.object) &&
          TextAt(*found.object, {"metadata", "annotations", kWantedAnnotation}) ==
              TextAt(child.object, {"metadata", "annotations", kWantedAnnotation})) {
        return false;
      }
      return Apply(child, found.object, mended, context);
  }
  return false;
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
      context.note({EventType::kNormal, "Deleted", "Delete", what + ": " + why});
    } else {
      context.troubles.push_back(TroubleOf(gone.error(), "delete " + what));
    }
  }
}

}  // namespace

void WriteChildren(const std::vector<Child>& wanted, MendedVersions& mended, PassContext& context) {
  std::string made;  // all of a pass in one Event
  for (const Child& child : wanted) {
    if (WriteOne(child, mended, context)) {
      made += (made.empty() ? "" : ", ") + child.resource->kind + " " + KeyOf(child.object).name;
    }
    if (context.is_stopped()) break;
  }
  if (!made.empty()) context.note({EventType::kNormal, "Created", "Create", "made " + made});
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
