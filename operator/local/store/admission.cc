#include "operator/local/store/admission.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/api/json.h"
#include "operator/local/store/errors.h"
#include "operator/local/store/metadata.h"
#include "operator/local/store/standard_schemas.h"
#include "operator/local/store/tree_edit.h"

namespace janus::control {
namespace {

constexpr size_t kMaxJsonBytes = 3 << 19;  // etcd's --max-request-bytes

void DropNulls(Node& node) {
  for (Node& item : node.items) DropNulls(item);
  std::erase_if(node.fields, [](NodeField& field) {
    DropNulls(field.value);
    return field.value.kind == Node::Kind::kNull;
  });
}

void TakeLabels(const Node& from, Node& into) {
  for (const std::string_view field : {"labels", "annotations"}) {
    if (const Node* const value = FindAt(from, {"metadata", field})) {
      SetAt(into, {"metadata", field}, *value);
    } else {
      RemoveField(*FindMutable(into, "metadata"), field);
    }
  }
}

void AddCauses(const FieldErrors& errors, std::vector<ApiCause>& causes) {
  for (const FieldError& error : errors) {
    causes.push_back({"FieldValueInvalid", error.path, error.message});
  }
}

// Nothing: every value has the type of its schema.
std::optional<std::string> WrongType(const Node& schema, const std::string& path,
                                     const Node& value) {
  const Patterns none;
  for (const ApiCause& cause : JudgeBySchema(schema, none, path, value)) {
    // Duplicate entries are checked elsewhere.
    if (cause.reason != "FieldValueDuplicate") return cause.field + ": " + cause.message;
  }
  return {};
}

std::optional<ApiError> RefuseUnknown(const std::vector<std::string>& unknown,
                                      const Reading& reading) {
  if (!reading.strict || unknown.empty()) return {};
  std::string list;
  for (const std::string& path : unknown) {
    list += (list.empty() ? "unknown field \"" : ", unknown field \"") + path + "\"";
  }
  return Unreadable(reading, "strict decoding error: " + list);
}

// Conforms metadata, which is the same for all kinds; adds unknown fields to `unknown`.
std::optional<ApiError> ConformMetadata(const Reading& reading, Node& object,
                                        std::vector<std::string>& unknown) {
  Node* const metadata = FindMutable(object, "metadata");
  if (metadata == nullptr) return {};
  for (std::string& path : PruneBySchema(MetadataSchema(), "metadata", *metadata)) {
    unknown.push_back(std::move(path));
  }
  const std::optional<std::string> wrong = WrongType(MetadataSchema(), "metadata", *metadata);
  return wrong ? std::optional(Unreadable(reading, *wrong)) : std::nullopt;
}

}  // namespace

ApiError Unreadable(const Reading& reading, const std::string& why) {
  return reading.is_patch ? UnreadablePatch(why) : BadRequest(why);
}

ApiResult<Node> Conform(const Kind& kind, Node object, const Reading& reading) {
  std::vector<std::string> unknown;
  if (std::optional<ApiError> error = ConformMetadata(reading, object, unknown)) {
    return *std::move(error);
  }
  if (kind.schema == nullptr) {
    DropNulls(object);
  } else {
    for (std::string& path : kind.schema->Prune(object)) unknown.push_back(std::move(path));
  }
  if (std::optional<ApiError> error = RefuseUnknown(unknown, reading)) return *std::move(error);
  SortFields(object);
  DropRepeatedOwners(object);
  return object;
}

ApiResult<Node> ConformScale(Node scale, const Reading& reading) {
  std::vector<std::string> unknown;
  if (std::optional<ApiError> error = ConformMetadata(reading, scale, unknown)) {
    return *std::move(error);
  }
  for (std::string& path : PruneBySchema(ScaleSchema(), "", scale)) {
    unknown.push_back(std::move(path));
  }
  if (const std::optional<std::string> wrong = WrongType(ScaleSchema(), "", scale)) {
    return Unreadable(reading, *wrong);
  }
  if (std::optional<ApiError> error = RefuseUnknown(unknown, reading)) return *std::move(error);
  return scale;
}

ApiResult<Node> Admit(const Kind& kind, Node object, const Node* before) {
  if (kind.schema != nullptr) {
    SetDefaults(kind.schema->root(), object);
  } else if (kind.rules.complete != nullptr) {
    kind.rules.complete(object, before);
  }
  SortFields(object);
  std::vector<ApiCause> causes = JudgeMetadata(kind, object, before);
  if (kind.rules.judge != nullptr) AddCauses(kind.rules.judge(object, before), causes);
  if (kind.schema != nullptr) {
    for (ApiCause& cause : kind.schema->JudgeStatus(object)) causes.push_back(std::move(cause));
  }
  if (!causes.empty()) {
    return InvalidObject(kind.resource, KeyOf(object).name, std::move(causes));
  }
  // The tree is never smaller than its JSON.
  if (BytesOf(object) > kMaxJsonBytes) {
    const size_t bytes = WriteJson(object).size();
    if (bytes > kMaxJsonBytes) return IsTooLarge(bytes, kMaxJsonBytes);
  }
  return object;
}

Node Confine(const Kind& kind, Subresource subresource, const Node& live, Node next) {
  const Node& source = subresource == Subresource::kStatus ? next : live;
  Node out = subresource == Subresource::kStatus ? live : next;
  if (!kind.has_status) return out;
  const Node* const status = source.Find("status");
  if (status == nullptr) {
    RemoveField(out, "status");
  } else {
    PutField(out, "status", *status);
  }
  if (subresource == Subresource::kStatus && kind.is_labelled_with_status) {
    TakeLabels(next, out);
  }
  return out;
}

bool IsSameGeneration(const Kind& kind, const Node& before, const Node& after) {
  const auto counted = [&](Node object) {
    RemoveField(object, "metadata");
    if (kind.has_status) RemoveField(object, "status");
    return object;
  };
  return counted(before) == counted(after);
}

}  // namespace janus::control
