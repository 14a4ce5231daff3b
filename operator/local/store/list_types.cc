#include "operator/local/store/list_types.h"

#include <algorithm>
#include <array>

#include "operator/kube/object.h"
#include "operator/local/store/standard_schemas.h"

namespace janus::control {
namespace {

// Keyed lists of built-in kinds; an empty parent matches anywhere.
struct KeyedList {
  std::string_view parent;
  std::string_view name;
  ListType::Kind kind;
  std::vector<std::string_view> keys;
};

const std::vector<KeyedList>& KeyedLists() {
  using enum ListType::Kind;
  static const std::vector<KeyedList> lists = {
      {"", "containers", kMap, {"name"}},
      {"", "initContainers", kMap, {"name"}},
      {"", "env", kMap, {"name"}},
      {"", "volumes", kMap, {"name"}},
      {"", "imagePullSecrets", kMap, {"name"}},
      {"", "volumeMounts", kMap, {"mountPath"}},
      {"", "conditions", kMap, {"type"}},
      {"", "topologySpreadConstraints", kMap, {"topologyKey", "whenUnsatisfiable"}},
      {"containers", "ports", kMap, {"containerPort", "protocol"}},
      {"initContainers", "ports", kMap, {"containerPort", "protocol"}},
      {"spec", "ports", kMap, {"port", "protocol"}},
  };
  return lists;
}

// Maps that are meaningful only as a whole.
constexpr std::array<std::string_view, 7> kAtomicMaps = {
    "selector",        "labelSelector", "nodeSelector",    "secretKeyRef",
    "configMapKeyRef", "fieldRef",      "resourceFieldRef"};

}  // namespace

TypeCursor TypeCursor::Field(std::string_view name) const {
  TypeCursor out = *this;
  out.is_root_ = false;
  out.parent_ = name_;
  out.name_ = name;
  if (is_root_ && name == "metadata") {
    out.schema_ = &MetadataSchema();
    out.is_built_in_ = false;
    return out;
  }
  if (out.schema_ == nullptr) return out;
  out.schema_ = FindAt(*schema_, {"properties", name});
  if (out.schema_ == nullptr) out.schema_ = schema_->Find("additionalProperties");
  return out;
}

TypeCursor TypeCursor::Item() const {
  TypeCursor out = *this;
  if (schema_ != nullptr) out.schema_ = schema_->Find("items");
  return out;
}

ListType TypeCursor::list_type() const {
  ListType out;
  if (schema_ != nullptr) {
    const std::string_view type = TextAt(*schema_, {"x-kubernetes-list-type"});
    if (type == "set") out.kind = ListType::Kind::kSet;
    if (type != "map") return out;
    out.kind = ListType::Kind::kMap;
    if (const Node* const keys = schema_->Find("x-kubernetes-list-map-keys")) {
      for (const Node& key : keys->items) out.keys.push_back(key.text);
    }
    return out;
  }
  if (!is_built_in_) return out;
  for (const KeyedList& list : KeyedLists()) {
    if (list.name != name_ || (!list.parent.empty() && list.parent != parent_)) continue;
    return {list.kind, list.keys};
  }
  return out;
}

bool TypeCursor::is_atomic_map() const {
  if (schema_ != nullptr) return TextAt(*schema_, {"x-kubernetes-map-type"}) == "atomic";
  return is_built_in_ &&
         std::find(kAtomicMaps.begin(), kAtomicMaps.end(), name_) != kAtomicMaps.end();
}

const Node* KeyValue(const Node& item, std::string_view key) {
  static const Node tcp = Node::String("TCP");
  const Node* const value = item.Find(key);
  return value == nullptr && key == "protocol" && item.kind == Node::Kind::kMap ? &tcp : value;
}

}  // namespace janus::control
