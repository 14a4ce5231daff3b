#include "operator/local/store/structural_schema.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "operator/api/rfc3339.h"
#include "operator/api/yaml.h"
#include "operator/kube/object.h"
#include "operator/local/store/field_set.h"
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

// Adds the patterns of a schema and of its parts.
Status CollectPatterns(const Node& schema, Patterns& out) {
  if (const std::string pattern(TextAt(schema, {"pattern"})); !pattern.empty()) {
    try {
      out.try_emplace(pattern, pattern, std::regex::ECMAScript | std::regex::optimize);
    } catch (const std::regex_error& error) {  // the library reports errors only this way
      return InvalidArgument("pattern " + pattern + ": " + error.what());
    }
  }
  for (const std::string_view part : {"items", "additionalProperties"}) {
    if (const Node* const below = schema.Find(part)) {
      JANUS_RETURN_IF_ERROR(CollectPatterns(*below, out));
    }
  }
  if (const Node* const properties = schema.Find("properties")) {
    for (const NodeField& property : properties->fields) {
      JANUS_RETURN_IF_ERROR(CollectPatterns(property.value, out));
    }
  }
  return OkStatus();
}

class Judge {
 public:
  explicit Judge(const Patterns& patterns) : patterns_(patterns) {}

  void Value(const Node& value, const Node& schema, const std::string& path) {
    if (value.kind == Node::Kind::kNull && IsTrue(schema, "nullable")) return;
    if (IsTrue(schema, "x-kubernetes-int-or-string") && value.kind != Node::Kind::kInteger &&
        value.kind != Node::Kind::kString) {
      return Fail(kWrongType, path,
                  "must be a number or a string, is " + std::string(Describe(value.kind)));
    }
    if (const std::optional<Node::Kind> want = KindOf(TextAt(schema, {"type"}));
        want && value.kind != *want) {
      return Fail(
          kWrongType, path,
          "must be " + std::string(Describe(*want)) + ", is " + std::string(Describe(value.kind)));
    }
    Enumeration(value, schema, path);
    switch (value.kind) {
      case Node::Kind::kInteger:
        Bounds(value.integer, schema, path, "minimum", "maximum", "");
        return;
      case Node::Kind::kString:
        return Text(value.text, schema, path);
      case Node::Kind::kList:
        return List(value, schema, path);
      case Node::Kind::kMap:
        return Map(value, schema, path);
      default:
        return;
    }
  }

  std::vector<ApiCause> causes;

 private:
  static constexpr std::string_view kInvalid = "FieldValueInvalid";
  static constexpr std::string_view kWrongType = "FieldValueTypeInvalid";

  void Fail(std::string_view reason, const std::string& path, std::string message) {
    causes.push_back({std::string(reason), path, std::move(message)});
  }
  // True if it reported nothing.
  bool Bounds(int64_t is, const Node& schema, const std::string& path, std::string_view low,
              std::string_view high, std::string_view unit) {
    const std::optional<int64_t> least = IntegerAt(schema, {low});
    const std::optional<int64_t> most = IntegerAt(schema, {high});
    const std::string has = "is " + std::to_string(is) + std::string(unit);
    if (least && is < *least)
      Fail(kInvalid, path, has + "; want at least " + std::to_string(*least));
    if (most && is > *most) {
      const std::string_view reason = unit == kCharacters ? "FieldValueTooLong"
                                      : unit == kEntries  ? "FieldValueTooMany"
                                                          : kInvalid;
      Fail(reason, path, has + "; want at most " + std::to_string(*most));
    }
    return (!least || is >= *least) && (!most || is <= *most);
  }
  void Text(const std::string& text, const Node& schema, const std::string& path) {
    const auto characters = static_cast<int64_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
    if (TextAt(schema, {"format"}) == "date-time" && !IsDateTime(text)) {
      Fail(kWrongType, path, "is '" + text.substr(0, 64) + "'; want a date and time");
    }
    if (!Bounds(characters, schema, path, "minLength", "maxLength", kCharacters)) return;
    const auto pattern = patterns_.find(TextAt(schema, {"pattern"}));
    if (pattern != patterns_.end() && !std::regex_search(text, pattern->second)) {
      Fail(kInvalid, path, "is '" + text.substr(0, 64) + "'; want what matches " + pattern->first);
    }
  }
  void Enumeration(const Node& value, const Node& schema, const std::string& path) {
    const Node* const allowed = schema.Find("enum");
    if (allowed == nullptr) return;
    std::string names;
    for (const Node& one : allowed->items) {
      if (one == value) return;
      names += (names.empty() ? "" : ", ") + one.text;
    }
    Fail("FieldValueNotSupported", path,
         "is '" + value.text.substr(0, 64) + "'; use one of " + names);
  }
  void List(const Node& value, const Node& schema, const std::string& path) {
    Bounds(static_cast<int64_t>(value.items.size()), schema, path, "minItems", "maxItems",
           kEntries);
    Distinct(value, schema, path);
    const Node* const items = schema.Find("items");
    if (items == nullptr) return;
    for (size_t i = 0; i < value.items.size(); ++i) Value(value.items[i], *items, Item(path, i));
  }
  void Distinct(const Node& list, const Node& schema, const std::string& path) {
    const ListType type = TypeCursor(&schema).list_type();
    if (type.kind == ListType::Kind::kAtomic) return;
    std::set<std::string> seen;
    for (size_t i = 0; i < list.items.size(); ++i) {
      const std::optional<std::string> name = NameOfItem(list.items[i], type);
      if (!name || seen.insert(*name).second) continue;
      Fail("FieldValueDuplicate", Item(path, i),
           "another entry is " + name->substr(2, 256) + " as well");
    }
  }
  void Map(const Node& value, const Node& schema, const std::string& path) {
    if (const Node* const required = schema.Find("required")) {
      for (const Node& name : required->items) {
        if (value.Find(name.text) == nullptr)
          Fail("FieldValueRequired", Below(path, name.text), "is required");
      }
    }
    for (const NodeField& field : value.fields) {
      const Node* const below = SchemaOfField(schema, field.name);
      if (below != nullptr) Value(field.value, *below, Below(path, field.name));
    }
  }

  static constexpr std::string_view kCharacters = " characters";
  static constexpr std::string_view kEntries = " entries";

  const Patterns& patterns_;
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
  Patterns patterns;
  if (const Node* const status = FindAt(*schema, {"properties", "status"})) {
    JANUS_RETURN_IF_ERROR(CollectPatterns(*status, patterns));
  }
  return StructuralSchema(*schema, std::move(patterns));
}

std::vector<std::string> PruneBySchema(const Node& schema, const std::string& path, Node& value) {
  std::vector<std::string> pruned;
  PruneBelow(value, schema, path, pruned);
  return pruned;
}

std::vector<ApiCause> JudgeBySchema(const Node& schema, const Patterns& patterns,
                                    const std::string& path, const Node& value) {
  Judge judge(patterns);
  judge.Value(value, schema, path);
  return std::move(judge.causes);
}

std::vector<ApiCause> StructuralSchema::JudgeStatus(const Node& object) const {
  const Node* const status = object.Find("status");
  const Node* const schema = FindAt(root_, {"properties", "status"});
  if (status == nullptr || schema == nullptr) return {};
  return JudgeBySchema(*schema, status_patterns_, "status", *status);
}

}  // namespace janus::control
