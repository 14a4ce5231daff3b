#include "operator/local/store/admission.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "operator/api/json.h"
#include "operator/local/store/errors.h"
#include "operator/local/store/metadata.h"
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

}  // namespace

ApiResult<Node> Conform(const Kind& kind, Node object, bool strict) {
  if (kind.schema == nullptr) {
    DropNulls(object);
  } else if (const std::vector<std::string> unknown = kind.schema->Prune(object);
             strict && !unknown.empty()) {
    std::string list;
    for (const std::string& path : unknown) {
      list += (list.empty() ? "unknown field \"" : ", unknown field \"") + path + "\"";
    }
    return BadRequest("strict decoding error: " + list);
  }
  SortFields(object);
  return object;
}

ApiResult<Node> Admit(const Kind& kind, Node object, const Node* before) {
  if (kind.schema != nullptr) {
    SetDefaults(kind.schema->root(), object);
  } else if (kind.rules.complete != nullptr) {
    kind.rules.complete(object, before);
  }
  SortFields(object);
  std::vector<ApiCause> causes = JudgeMetadata(kind, object, before);
  if (causes.empty() && kind.rules.judge != nullptr) {
    AddCauses(kind.rules.judge(object, before), causes);
  }
  if (kind.schema != nullptr) AddCauses(kind.schema->JudgeStatus(object), causes);
  if (!causes.empty()) {
    return InvalidObject(kind.resource, KeyOf(object).name, std::move(causes));
  }
  // A tree is never smaller than its text.
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
