#include "operator/local/store/structural_schema.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "operator/api/yaml.h"
#include "operator/kube/object.h"
#include "operator/local/store/tree_edit.h"

namespace janus::control {
namespace {

bool IsOutside(std::string_view field) {
  return field == "apiVersion" || field == "kind" || field == "metadata";
}

bool IsTrue(const Node& schema, std::string_view keyword) {
  const Node* const value = schema.Find(keyword);
  return value != nullptr && value->kind == Node::Kind::kBool && value->boolean;
}

// The schema of that field, or null.
const Node* SchemaOfField(const Node& schema, std::string_view name) {
  if (const Node* const property = FindAt(schema, {"properties", name})) return property;
  const Node* const others = schema.Find("additionalProperties");
  return others != nullptr && others->kind == Node::Kind::kMap ? others : nullptr;
}

std::string Below(const std::string& path, std::string_view field) {
  return path.empty() ? std::string(field) : path + "." + std::string(field);
}

std::string Item(const std::string& path, size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

void PruneBelow(Node& value, const Node& schema, const std::string& path,
                std::vector<std::string>& pruned) {
  if (const Node* const items = schema.Find("items")) {
    for (size_t i = 0; i < value.items.size(); ++i) {
      PruneBelow(value.items[i], *items, Item(path, i), pruned);
    }
  }
  const bool keeps_unknown = IsTrue(schema, "x-kubernetes-preserve-unknown-fields");
  std::erase_if(value.fields, [&](NodeField& field) {
    if (path.empty() && IsOutside(field.name)) return false;
    const Node* const below = SchemaOfField(schema, field.name);
    if (below != nullptr) {
      if (field.value.kind == Node::Kind::kNull) {
        return !IsTrue(*below, "nullable") && below->Find("default") == nullptr;
      }
      PruneBelow(field.value, *below, Below(path, field.name), pruned);
      return false;
    }
    if (!keeps_unknown) pruned.push_back(Below(path, field.name));
    return !keeps_unknown;
  });
}

std::optional<Node::Kind> KindOf(std::string_view type) {
  if (type == "object") return Node::Kind::kMap;
  if (type == "array") return Node::Kind::kList;
  if (type == "string") return Node::Kind::kString;
  if (type == "integer") return Node::Kind::kInteger;
  if (type == "boolean") return Node::Kind::kBool;
  return std::nullopt;
}

class Judge {
 public:
  void Value(const Node& value, const Node& schema, const std::string& path) {
    if (value.kind == Node::Kind::kNull && IsTrue(schema, "nullable")) return;
    if (IsTrue(schema, "x-kubernetes-int-or-string") && value.kind != Node::Kind::kInteger &&
        value.kind != Node::Kind::kString) {
      return Fail(path, "must be a number or a string, is " + std::string(Describe(value.kind)));
    }
    if (const std::optional<Node::Kind> want = KindOf(TextAt(schema, {"type"}));
        want && value.kind != *want) {
      return Fail(path, "must be " + std::string(Describe(*want)) + ", is " +
                            std::string(Describe(value.kind)));
    }
    Enumeration(value, schema, path);
    const auto characters = static_cast<int64_t>(std::count_if(
        value.text.begin(), value.text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
    switch (value.kind) {
      case Node::Kind::kInteger:
        return Bounds(value.integer, schema, path, "minimum", "maximum", "");
      case Node::Kind::kString:
        return Bounds(characters, schema, path, "minLength", "maxLength", " characters");
      case Node::Kind::kList:
        return List(value, schema, path);
      case Node::Kind::kMap:
        return Map(value, schema, path);
      default:
        return;
    }
  }

  FieldErrors errors;

 private:
  void Fail(const std::string& path, std::string message) {
    errors.push_back({path, std::move(message), 0});
  }
  void Bounds(int64_t is, const Node& schema, const std::string& path, std::string_view low,
              std::string_view high, std::string_view unit) {
    const std::optional<int64_t> least = IntegerAt(schema, {low});
    const std::optional<int64_t> most = IntegerAt(schema, {high});
    const std::string has = "is " + std::to_string(is) + std::string(unit);
    if (least && is < *least) Fail(path, has + "; want at least " + std::to_string(*least));
    if (most && is > *most) Fail(path, has + "; want at most " + std::to_string(*most));
  }
  void Enumeration(const Node& value, const Node& schema, const std::string& path) {
    const Node* const allowed = schema.Find("enum");
    if (allowed == nullptr) return;
    std::string names;
    for (const Node& one : allowed->items) {
      if (one == value) return;
      names += (names.empty() ? "" : ", ") + one.text;
    }
    Fail(path, "is '" + value.text.substr(0, 64) + "'; use one of " + names);
  }
  void List(const Node& value, const Node& schema, const std::string& path) {
    Bounds(static_cast<int64_t>(value.items.size()), schema, path, "minItems", "maxItems",
           " entries");
    const Node* const items = schema.Find("items");
    if (items == nullptr) return;
    for (size_t i = 0; i < value.items.size(); ++i) Value(value.items[i], *items, Item(path, i));
  }
  void Map(const Node& value, const Node& schema, const std::string& path) {
    if (const Node* const required = schema.Find("required")) {
      for (const Node& name : required->items) {
        if (value.Find(name.text) == nullptr) Fail(Below(path, name.text), "is required");
      }
    }
    for (const NodeField& field : value.fields) {
      const Node* const below = SchemaOfField(schema, field.name);
      if (below != nullptr) Value(field.value, *below, Below(path, field.name));
    }
  }
};

}  // namespace

void SetDefaults(const Node& schema, Node& value) {
  if (const Node* const items = schema.Find("items")) {
    for (Node& item : value.items) SetDefaults(*items, item);
  }
  if (value.kind != Node::Kind::kMap) return;
  if (const Node* const properties = schema.Find("properties")) {
    for (const NodeField& property : properties->fields) {
      const Node* const standard = property.value.Find("default");
      const Node* const is = value.Find(property.name);
      const bool is_null = is != nullptr && is->kind == Node::Kind::kNull;
      if (standard == nullptr || (is != nullptr && !is_null)) continue;
      if (is_null && IsTrue(property.value, "nullable")) continue;
      PutField(value, property.name, *standard);
    }
  }
  for (NodeField& field : value.fields) {
    const Node* const below = SchemaOfField(schema, field.name);
    if (below != nullptr) SetDefaults(*below, field.value);
  }
}

Result<StructuralSchema> StructuralSchema::FromCrd(std::string_view yaml, std::string_view file) {
  JANUS_ASSIGN_OR_RETURN(const Node crd, ParseYaml(yaml, file));
  const Node* const versions = FindAt(crd, {"spec", "versions"});
  if (versions == nullptr || versions->items.size() != 1) {
    return InvalidArgument(std::string(file) + ": want a CRD with one version");
  }
  const Node* const schema = FindAt(versions->items[0], {"schema", "openAPIV3Schema"});
  if (schema == nullptr) return InvalidArgument(std::string(file) + ": the version has no schema");
  return StructuralSchema(*schema);
}

std::vector<std::string> StructuralSchema::Prune(Node& object) const {
  std::vector<std::string> pruned;
  PruneBelow(object, root_, "", pruned);
  return pruned;
}

FieldErrors StructuralSchema::JudgeStatus(const Node& object) const {
  Judge judge;
  const Node* const status = object.Find("status");
  const Node* const schema = FindAt(root_, {"properties", "status"});
  if (status != nullptr && schema != nullptr) judge.Value(*status, *schema, "status");
  return std::move(judge.errors);
}

}  // namespace janus::control
