#include "operator/reconcile/certificates/role_secret.h"

#include <algorithm>
#include <string>
#include <utility>

#include "operator/kube/object.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/trees.h"

namespace janus::control {
namespace {

Node Step(std::string_view what, std::string_view path, Node value) {
  return Object({{"op", Text(what)}, {"path", Text(path)}, {"value", std::move(value)}});
}

Node NewData(const Node& secret) {
  const Node* const owners = FindAt(secret, {"metadata", "ownerReferences"});
  const Node owner = owners == nullptr || owners->items.empty() ? Node() : owners->items[0];
  return ListOf({Step("test", "/metadata/ownerReferences/0/uid", Text(TextAt(owner, {"uid"}))),
                 Step("test", "/type", Text(TextAt(secret, {"type"}))),
                 Step("add", "/data", *FindAt(secret, {"data"}))});
}

// Webhooks, policies and Secret validation use the same code. Policies and validation name a cause;
// a failed test has none, or only the patch.
bool IsTestThatFailed(const ApiError& error) {
  return error.http_status == 422 &&
         error.message.find("denied the request") == std::string::npos &&
         std::all_of(error.causes.begin(), error.causes.end(),
                     [](const ApiCause& cause) { return cause.field == "patch"; });
}

}  // namespace

SecretWritten WriteSecret(const Node& secret, bool is_new, ObjectApi& api,
                          const CallLimits& limits) {
  if (is_new) {
    ApiResult<Node> made = api.Create(kSecrets, secret, {}, limits);
    if (made.ok() || made.error().code != StatusCode::kAlreadyExists) return {std::move(made)};
  }
  ApiResult<Node> patched = api.Patch(kSecrets, KeyOf(secret), PatchKind::kJson, NewData(secret),
                                      Subresource::kNone, {}, limits);
  if (patched.ok()) return {std::move(patched)};
  if (patched.error().code == StatusCode::kNotFound && !is_new) {
    return {api.Create(kSecrets, secret, {}, limits)};
  }
  const bool is_foreign = IsTestThatFailed(patched.error());
  return {std::move(patched), is_foreign};
}

}  // namespace janus::control
