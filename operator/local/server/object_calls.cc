#include "operator/local/server/object_calls.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "operator/api/json.h"
#include "operator/local/server/object_route.h"
#include "operator/local/store/errors.h"
#include "operator/reconcile/objects/trees.h"

namespace janus::control {
namespace {

const CallLimits kLimits;

Node StatusOf(const ApiError& error, int code) {
  Node causes = Node::List();
  for (const ApiCause& cause : error.causes) {
    causes.items.push_back(Object({{"reason", Text(cause.reason)},
                                   {"field", Text(cause.field)},
                                   {"message", Text(cause.message)}}));
  }
  return Object({{"kind", Text("Status")},
                 {"apiVersion", Text("v1")},
                 {"metadata", Node::Map()},
                 {"status", Text("Failure")},
                 {"message", Text(error.message)},
                 {"reason", Text(error.reason)},
                 {"details", Object({{"causes", std::move(causes)}})},
                 {"code", Node::Integer(code)}});
}

ObjectReply Failed(const ApiError& error) {
  const int code = error.http_status != 0 ? error.http_status : 500;
  return {code, WriteJson(StatusOf(error, code))};
}

ObjectReply Reply(const ApiResult<Node>& result, int status = 200) {
  if (!result.ok()) return Failed(result.error());
  return {status, WriteJson(*result)};
}

ApiError NotAllowed(const std::string& what) {
  ApiError error;
  error.http_status = 405;
  error.reason = "MethodNotAllowed";
  error.message = what;
  return error;
}

WriteOptions WriteOptionsOf(const ObjectRequest& request) {
  WriteOptions out;
  out.dry_run = request.query("dryRun") == "All";
  out.strict = request.query("fieldValidation") == "Strict";
  return out;
}

ObjectReply Listed(ObjectApi& api, const ObjectRoute& route, const ObjectRequest& request) {
  ListOptions options;
  options.selection = {route.key.namespace_, request.query("labelSelector"),
                       request.query("fieldSelector")};
  options.continue_token = request.query("continue");
  options.resource_version = request.query("resourceVersion");
  const std::string limit = request.query("limit");
  options.limit = 0;
  std::from_chars(limit.data(), limit.data() + limit.size(), options.limit);
  ApiResult<ObjectList> list = api.List(route.resource, options, kLimits);
  if (!list.ok()) return Failed(list.error());
  Node out = Object({{"kind", Text(route.resource.kind + "List")},
                     {"apiVersion", Text(route.resource.ApiVersion())},
                     {"metadata", Object({{"resourceVersion", Text(list->resource_version)},
                                          {"continue", Text(list->continue_token)}})}});
  out.Add("items", Node::List()).items = std::move(list->items);
  return {200, WriteJson(out)};
}

ApiResult<Node> BodyOf(const ObjectRequest& request) {
  Result<Node> read = ParseJson(request.body, "body");
  if (!read.ok()) return BadRequest(read.status().message());
  return *std::move(read);
}

// The object of the request. Refused, as by the server, if it contradicts the path.
ApiResult<Node> ObjectOf(const ObjectRequest& request, const ObjectRoute& route) {
  ApiResult<Node> object = BodyOf(request);
  if (!object.ok()) return object;
  const ObjectKey key = KeyOf(*object);
  if (key.namespace_.empty() && !route.key.namespace_.empty()) {
    SetAt(*object, {"metadata", "namespace"}, Text(route.key.namespace_));
  } else if (key.namespace_ != route.key.namespace_) {
    return BadRequest("the namespace of the object (" + key.namespace_ +
                      ") does not match the namespace of the request (" + route.key.namespace_ +
                      ")");
  }
  if (!route.key.name.empty() && key.name != route.key.name) {
    return BadRequest("the name of the object (" + key.name +
                      ") does not match the name of the request (" + route.key.name + ")");
  }
  return object;
}

ObjectReply Patched(ObjectApi& api, const ObjectRoute& route, const ObjectRequest& request) {
  const std::string_view type =
      std::string_view(request.content_type)
          .substr(0, std::min(request.content_type.find(';'), request.content_type.size()));
  if (type == "application/apply-patch+yaml") {
    const ApiResult<Node> object = ObjectOf(request, route);
    if (!object.ok()) return Failed(object.error());
    const ApplyOptions options{WriteOptionsOf(request), request.query("force") == "true"};
    return Reply(api.Apply(route.resource, *object, route.subresource, options, kLimits));
  }
  const ApiResult<Node> patch = BodyOf(request);
  if (!patch.ok()) return Failed(patch.error());
  if (type != "application/merge-patch+json" && type != "application/json-patch+json") {
    ApiError error = NotAllowed("the patch type '" + std::string(type) + "' is not known here");
    error.http_status = 415;
    error.reason = "UnsupportedMediaType";
    return Failed(error);
  }
  const PatchKind kind =
      type == "application/merge-patch+json" ? PatchKind::kMerge : PatchKind::kJson;
  return Reply(api.Patch(route.resource, route.key, kind, *patch, route.subresource,
                         WriteOptionsOf(request), kLimits));
}

ObjectReply Deleted(ObjectApi& api, const ObjectRoute& route, const ObjectRequest& request) {
  DeleteOptions options;
  if (!request.body.empty()) {
    const ApiResult<Node> body = BodyOf(request);
    if (!body.ok()) return Failed(body.error());
    const std::string_view propagation = TextAt(*body, {"propagationPolicy"});
    if (propagation == "Foreground") options.propagation = Propagation::kForeground;
    if (propagation == "Orphan") options.propagation = Propagation::kOrphan;
    if (const std::string_view uid = TextAt(*body, {"preconditions", "uid"}); !uid.empty()) {
      options.uid = uid;
    }
    const std::string_view version = TextAt(*body, {"preconditions", "resourceVersion"});
    if (!version.empty()) options.resource_version = version;
    options.grace_period_seconds = IntegerAt(*body, {"gracePeriodSeconds"});
    const Node* const dry_run = FindAt(*body, {"dryRun"});
    options.dry_run = dry_run != nullptr && !dry_run->items.empty();
  }
  return Reply(api.Delete(route.resource, route.key, options, kLimits));
}

}  // namespace

ObjectReply AnswerObjectCall(ObjectApi& api, const ObjectRequest& request) {
  const ApiResult<ObjectRoute> found = RouteOf(request.path);
  if (!found.ok()) return Failed(found.error());
  const ObjectRoute& route = *found;
  const bool is_collection = route.key.name.empty();
  if (request.query("watch") == "true") return Failed(NotAllowed("there are no watches here"));
  if (request.method == "GET") {
    if (is_collection) return Listed(api, route, request);
    return Reply(api.Get(route.resource, route.key, route.subresource, kLimits));
  }
  if (request.method == "POST" && is_collection) {
    const ApiResult<Node> object = ObjectOf(request, route);
    if (!object.ok()) return Failed(object.error());
    return Reply(api.Create(route.resource, *object, WriteOptionsOf(request), kLimits), 201);
  }
  if (request.method == "PUT" && !is_collection) {
    const ApiResult<Node> object = ObjectOf(request, route);
    if (!object.ok()) return Failed(object.error());
    return Reply(
        api.Update(route.resource, *object, route.subresource, WriteOptionsOf(request), kLimits));
  }
  if (request.method == "PATCH" && !is_collection) return Patched(api, route, request);
  if (request.method == "DELETE" && !is_collection) return Deleted(api, route, request);
  return Failed(NotAllowed("the server does not allow this method on the requested resource"));
}

}  // namespace janus::control
