#include "operator/local/store/errors.h"

#include <utility>

namespace janus::control {
namespace {

ApiError Make(int code, std::string_view reason, std::string_view message,
              const std::vector<ApiCause>& causes = {}) {
  Node status = Node::Map();
  status.Add("kind", Node::String("Status"));
  status.Add("code", Node::Integer(code));
  status.Add("reason", Node::String(reason));
  status.Add("message", Node::String(message));
  Node list = Node::List();
  for (const ApiCause& cause : causes) {
    Node& item = list.items.emplace_back(Node::Map());
    item.Add("reason", Node::String(cause.reason));
    item.Add("field", Node::String(cause.field));
    item.Add("message", Node::String(cause.message));
  }
  SetAt(status, {"details", "causes"}, std::move(list));
  ApiError error = ErrorOfStatusObject(status);
  error.outcome_unknown = false;  // the store knows that nothing was written
  return error;
}

std::string Quoted(const Resource& resource, const std::string& name) {
  return resource.ToString() + " \"" + name + "\"";
}

std::string Join(const std::vector<ApiCause>& causes) {
  std::string out;
  for (const ApiCause& cause : causes) {
    if (!out.empty()) out += ", ";
    out += cause.field.empty() ? cause.message : cause.field + ": " + cause.message;
  }
  return causes.size() > 1 ? "[" + out + "]" : out;
}

}  // namespace

ApiError NoSuchResource(const Resource& resource) {
  return Make(
      404, "NotFound",
      "there is no resource " + resource.ToString() + " of " + resource.ApiVersion() + " here");
}

ApiError NoSuchSubresource(const Resource& resource, std::string_view subresource) {
  return Make(404, "NotFound", resource.ToString() + " have no " + std::string(subresource));
}

ApiError NoSuchObject(const Resource& resource, const std::string& name) {
  return Make(404, "NotFound", Quoted(resource, name) + " not found");
}

ApiError NameIsTaken(const Resource& resource, const std::string& name) {
  return Make(409, "AlreadyExists", Quoted(resource, name) + " already exists");
}

ApiError VersionConflict(const Resource& resource, const std::string& name, std::string_view why) {
  return Make(409, "Conflict", Quoted(resource, name) + ": " + std::string(why));
}

ApiError FieldConflicts(std::vector<ApiCause> causes) {
  const std::string count = std::to_string(causes.size());
  return Make(409, "Conflict", "apply failed with conflicts, " + count + ": " + Join(causes),
              causes);
}

ApiError IsForbidden(const Resource& resource, const std::string& name, std::string_view why) {
  return Make(403, "Forbidden", Quoted(resource, name) + " is forbidden: " + std::string(why));
}

ApiError BadRequest(std::string message) {
  return Make(400, "BadRequest", message);
}

ApiError UnreadablePatch(const std::string& why) {
  const std::vector<ApiCause> causes = {{"FieldValueInvalid", "patch", why}};
  return Make(422, "Invalid", " \"\" is invalid: " + Join(causes), causes);
}

ApiError UidMayNotChange(const Resource& resource, const std::string& name, std::string_view uid) {
  return InvalidObject(
      resource, name,
      {{"FieldValueInvalid", "metadata.uid",
        "is \"" + std::string(uid.substr(0, 64)) + "\", another one's; field is immutable"}});
}

ApiError NotTyped(const Resource& resource, const std::string& name, const std::string& why) {
  return Make(500, "",
              "failed to create typed patch object (/" + name + "; " + resource.ApiVersion() +
                  ", Kind=" + resource.kind + "): " + why);
}

ApiError NoVersion(std::string_view version) {
  return Make(500, "",
              "strconv.ParseUint: parsing \"" + std::string(version.substr(0, 64)) +
                  "\": no resourceVersion is read so");
}

ApiError VersionIsMissing(const Resource& resource, const std::string& name) {
  return InvalidObject(
      resource, name,
      {{"FieldValueInvalid", "metadata.resourceVersion", "must be specified for an update"}});
}

ApiError HasVersionAlready() {
  return Make(500, "", "resourceVersion should not be set on objects to be created");
}

ApiError NoApplyOfScale(const Resource& resource) {
  return Make(500, "",
              "failed to create manager for existing fields: the scale of " + resource.ToString() +
                  " takes no apply");
}

ApiError InvalidObject(const Resource& resource, const std::string& name,
                       std::vector<ApiCause> causes) {
  return Make(422, "Invalid", Quoted(resource, name) + " is invalid: " + Join(causes), causes);
}

ApiError VersionIsTooOld(int64_t version, int64_t oldest) {
  return Make(
      410, "Expired",
      "too old resource version: " + std::to_string(version) + " (" + std::to_string(oldest) + ")");
}

ApiError VersionIsAhead(int64_t version, int64_t newest) {
  return Make(504, "Timeout",
              "too large resource version: " + std::to_string(version) +
                  ", current: " + std::to_string(newest));
}

ApiError IsTooLarge(size_t bytes, size_t most) {
  return Make(
      413, "RequestEntityTooLarge",
      "the object has " + std::to_string(bytes) + " bytes; want at most " + std::to_string(most));
}

ApiError StoreIsFull(size_t most) {
  return Make(500, "InternalError",
              "the store holds " + std::to_string(most) +
                  " bytes of objects, which is all it may; delete some");
}

Node DeletedStatus(const Resource& resource, const std::string& name, std::string_view uid) {
  Node status = Node::Map();
  status.Add("apiVersion", Node::String("v1"));
  SetAt(status, {"details", "group"}, Node::String(resource.group));
  SetAt(status, {"details", "kind"}, Node::String(resource.plural));
  SetAt(status, {"details", "name"}, Node::String(name));
  SetAt(status, {"details", "uid"}, Node::String(uid));
  status.Add("kind", Node::String("Status"));
  status.Add("metadata", Node::Map());
  status.Add("status", Node::String("Success"));
  return status;
}

}  // namespace janus::control
