#include "operator/local/store/typed_patch.h"

#include <set>
#include <string_view>

#include "operator/kube/object.h"
#include "operator/local/store/field_set.h"

namespace janus::control {
namespace {

bool IsTrue(const Node& schema, std::string_view keyword) {
  const Node* const value = schema.Find(keyword);
  return value != nullptr && value->boolean;
}

bool HasType(const Node& value, std::string_view type) {
  using enum Node::Kind;
  if (type == "object") return value.kind == kMap;
  if (type == "array") return value.kind == kList;
  if (type == "string") return value.kind == kString;
  if (type == "boolean") return value.kind == kBool;
  // Fractions are checked later.
  if (type == "integer" || type == "number") return value.kind == kInteger || value.kind == kFloat;
  return true;
}

bool HasField(const Node& schema, std::string_view name) {
  return FindAt(schema, {"properties", name}) != nullptr ||
         schema.Find("additionalProperties") != nullptr ||
         IsTrue(schema, "x-kubernetes-preserve-unknown-fields");
}

using Why = std::optional<std::string>;

Why Judge(const Node& value, const TypeCursor& at, const std::string& path);

Why JudgeMap(const Node& map, const TypeCursor& at, const std::string& path) {
  for (const NodeField& field : map.fields) {
    const std::string below = path + "." + field.name;
    const bool is_outside = path.empty() && (field.name == "apiVersion" || field.name == "kind" ||
                                             field.name == "metadata");
    if (!is_outside && at.schema() != nullptr && !HasField(*at.schema(), field.name)) {
      return below + ": field not declared in schema";
    }
    if (Why why = Judge(field.value, at.Field(field.name), below)) return why;
  }
  return {};
}

Why JudgeList(const Node& list, const TypeCursor& at, const std::string& path) {
  const ListType type = at.list_type();
  std::set<std::string> seen;
  for (size_t i = 0; i < list.items.size(); ++i) {
    std::string item = path + "[" + std::to_string(i) + "]";
    if (type.kind != ListType::Kind::kAtomic) {
      const std::optional<std::string> name = NameOfItem(list.items[i], type);
      if (!name && at.schema() != nullptr) {
        return path + ": element " + std::to_string(i) + ": associative list with keys has an " +
               "element that omits a key field";
      }
      item = path + (name ? ToText({*name}) : "");
      if (name && !seen.insert(*name).second) {
        return path + ": duplicate entries for key " + ToText({*name});
      }
    }
    if (Why why = Judge(list.items[i], at.Item(), item)) return why;
  }
  return {};
}

Why Judge(const Node& value, const TypeCursor& at, const std::string& path) {
  if (value.kind == Node::Kind::kNull) return {};
  const std::string_view type =
      at.schema() == nullptr ? std::string_view() : TextAt(*at.schema(), {"type"});
  if (!HasType(value, type)) {
    return path + ": expected " + std::string(type) + ", got " + std::string(Describe(value.kind));
  }
  if (value.kind == Node::Kind::kMap) return JudgeMap(value, at, path);
  if (value.kind == Node::Kind::kList) return JudgeList(value, at, path);
  return {};
}

}  // namespace

std::optional<std::string> WhyNotTyped(const Node& object, const TypeCursor& root) {
  return Judge(object, root, "");
}

}  // namespace janus::control
