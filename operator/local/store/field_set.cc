#include "operator/local/store/field_set.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "operator/api/json.h"
#include "operator/local/store/tree_edit.h"

namespace janus::control {
namespace {

constexpr std::array<std::string_view, 4> kOwnableMetadata = {"labels", "annotations",
                                                              "ownerReferences", "finalizers"};

bool IsOwnable(const FieldSetPath& path, std::string_view field) {
  if (path.empty()) return field != "apiVersion" && field != "kind";
  if (path.size() > 1 || path[0] != "f:metadata") return true;
  return std::find(kOwnableMetadata.begin(), kOwnableMetadata.end(), field) !=
         kOwnableMetadata.end();
}

// The keys of all items; nothing: an item lacks a key, so the list is a single part.
std::optional<std::vector<std::string>> NamesOf(const Node& list, const ListType& type) {
  if (type.kind == ListType::Kind::kAtomic) return std::nullopt;
  std::vector<std::string> names;
  for (const Node& item : list.items) {
    std::optional<std::string> name = NameOfItem(item, type);
    if (!name) return std::nullopt;
    names.push_back(*std::move(name));
  }
  return names;
}

bool IsRepeated(const std::vector<std::string>& names, const std::string& name) {
  return std::count(names.begin(), names.end(), name) > 1;
}

class PartFinder {
 public:
  void Walk(const Node& value, const TypeCursor& at) {
    if (value.kind == Node::Kind::kMap && !value.fields.empty() && !at.is_atomic_map()) {
      for (const NodeField& field : value.fields) {
        if (!IsOwnable(path_, field.name)) continue;
        path_.push_back("f:" + field.name);
        Walk(field.value, at.Field(field.name));
        path_.pop_back();
      }
      return;
    }
    if (value.kind == Node::Kind::kList && !value.items.empty() && WalkItems(value, at)) return;
    if (!path_.empty()) parts.emplace(path_, &value);
  }

  ObjectParts parts;

 private:
  bool WalkItems(const Node& list, const TypeCursor& at) {
    const ListType type = at.list_type();
    const std::optional<std::vector<std::string>> names = NamesOf(list, type);
    if (!names) return false;
    const bool is_whole = type.kind == ListType::Kind::kSet || at.Item().is_atomic_map();
    for (size_t i = 0; i < names->size(); ++i) {
      path_.push_back((*names)[i]);
      // Items with a repeated key form one part without sub-parts.
      const bool is_told_apart = !IsRepeated(*names, (*names)[i]);
      parts.emplace(path_, is_whole ? &list.items[i] : nullptr);
      if (!is_whole && is_told_apart) Walk(list.items[i], at.Item());
      path_.pop_back();
    }
    return true;
  }

  FieldSetPath path_;
};

// False: `value` is empty now and must be removed too. `keys`: key fields if `value` is an item.
bool RemoveBelow(Node& value, const FieldSetPath& path, size_t depth, const TypeCursor& at,
                 const std::vector<std::string_view>& keys) {
  const std::string_view step = path[depth];
  const bool is_last = depth + 1 == path.size();
  if (step.starts_with("f:")) {
    const std::string_view name = step.substr(2);
    Node* const field = FindMutable(value, name);
    if (field == nullptr) return true;
    const bool is_key = std::find(keys.begin(), keys.end(), name) != keys.end();
    if (is_last && is_key) return true;
    if (is_last || !RemoveBelow(*field, path, depth + 1, at.Field(name), {})) {
      RemoveField(value, name);
    }
    return !value.fields.empty();
  }
  const ListType type = at.list_type();
  for (size_t i = 0; i < value.items.size(); ++i) {
    if (NameOfItem(value.items[i], type) != step) continue;
    if (is_last || !RemoveBelow(value.items[i], path, depth + 1, at.Item(), type.keys)) {
      value.items.erase(value.items.begin() + static_cast<ptrdiff_t>(i));
    }
    break;
  }
  return !value.items.empty();
}

}  // namespace

std::optional<std::string> NameOfItem(const Node& item, const ListType& type) {
  if (type.kind == ListType::Kind::kSet) return "v:" + WriteJson(item);
  Node keys = Node::Map();
  for (const std::string_view key : type.keys) {
    const Node* const value = KeyValue(item, key);
    if (value == nullptr) return std::nullopt;
    keys.Add(key, *value);
  }
  return "k:" + WriteJson(keys);
}

ObjectParts PartsOf(const Node& object, const TypeCursor& root) {
  PartFinder finder;
  finder.Walk(object, root);
  return std::move(finder.parts);
}

std::string ToText(const FieldSetPath& path) {
  std::string out;
  for (const std::string& step : path) {
    const std::string_view name = std::string_view(step).substr(2);
    if (step.starts_with("f:")) {
      out += "." + std::string(name);
    } else if (step.starts_with("v:")) {
      out += "[=" + std::string(name) + "]";
    } else {
      const Result<Node> keys = ParseJson(name, "key");
      std::string list;
      for (const NodeField& key : keys.ok() ? keys->fields : std::vector<NodeField>()) {
        list += (list.empty() ? "" : ",") + key.name + "=" + WriteJson(key.value);
      }
      out += "[" + list + "]";
    }
  }
  return out;
}

bool HasBelow(const FieldSet& set, const FieldSetPath& path) {
  const auto found = set.lower_bound(path);
  return found != set.end() && found->size() >= path.size() &&
         std::equal(path.begin(), path.end(), found->begin());
}

Node MergeApplied(const Node* live, const Node& applied, const TypeCursor& at) {
  if (live == nullptr || live->kind != applied.kind) return applied;
  if (applied.kind == Node::Kind::kMap && !at.is_atomic_map()) {
    Node out = *live;
    for (const NodeField& field : applied.fields) {
      PutField(out, field.name,
               MergeApplied(live->Find(field.name), field.value, at.Field(field.name)));
    }
    return out;
  }
  if (applied.kind != Node::Kind::kList) return applied;
  const ListType type = at.list_type();
  const auto live_names = NamesOf(*live, type);
  const auto names = NamesOf(applied, type);
  if (!live_names || !names) return applied;
  Node out = *live;
  for (size_t i = 0; i < names->size(); ++i) {
    const std::string& name = (*names)[i];
    const auto is_it = [&](const Node& item) { return NameOfItem(item, type) == name; };
    const auto found = std::find_if(out.items.begin(), out.items.end(), is_it);
    if (found == out.items.end()) {
      out.items.push_back(applied.items[i]);
    } else if (!IsRepeated(*live_names, name)) {
      *found = MergeApplied(&*found, applied.items[i], at.Item());
    } else {
      // The applied item replaces all of them.
      *found = applied.items[i];
      out.items.erase(std::remove_if(found + 1, out.items.end(), is_it), out.items.end());
    }
  }
  return out;
}

void RemovePart(Node& object, const FieldSetPath& path, const TypeCursor& root) {
  RemoveBelow(object, path, 0, root, {});
}

}  // namespace janus::control
