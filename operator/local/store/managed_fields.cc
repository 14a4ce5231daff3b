#include "operator/local/store/managed_fields.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "operator/api/rfc3339.h"
#include "operator/kube/object.h"
#include "operator/local/store/tree_edit.h"

namespace janus::control {
namespace {

constexpr std::string_view kItself = ".";  // a part with further parts below it

// Encodes the parts from `at` that share the first `depth` steps of *at; moves `at` past them.
Node Encode(FieldSet::const_iterator& at, const FieldSet::const_iterator& end, size_t depth) {
  Node out = Node::Map();
  const FieldSetPath first = *at;
  const auto is_below = [&] {
    return at != end && at->size() >= depth &&
           std::equal(first.begin(), first.begin() + static_cast<ptrdiff_t>(depth), at->begin());
  };
  const bool is_part = first.size() == depth;
  if (is_part) ++at;
  if (is_part && is_below()) out.Add(kItself, Node::Map());
  while (is_below()) {
    const std::string step = (*at)[depth];
    Node below = Encode(at, end, depth + 1);
    out.Add(step, std::move(below));
  }
  return out;
}

void Decode(const Node& fields, FieldSetPath& path, FieldSet& out) {
  if (fields.fields.empty() && !path.empty()) out.insert(path);
  for (const NodeField& field : fields.fields) {
    if (field.name == kItself) {
      out.insert(path);
      continue;
    }
    path.push_back(field.name);
    Decode(field.value, path, out);
    path.pop_back();
  }
}

std::string_view NameOf(Subresource subresource) {
  switch (subresource) {
    case Subresource::kNone:
      return "";
    case Subresource::kStatus:
      return "status";
    case Subresource::kScale:
      return "scale";
  }
  return "";
}

FieldManager ManagerOf(const Node& entry) {
  FieldManager out{std::string(TextAt(entry, {"manager"})),
                   TextAt(entry, {"operation"}) == "Apply"};
  for (const Subresource one : {Subresource::kStatus, Subresource::kScale}) {
    if (TextAt(entry, {"subresource"}) == NameOf(one)) out.subresource = one;
  }
  return out;
}

Node EntryOf(const FieldManager& manager, const FieldSet& set, std::string_view api_version) {
  auto begin = set.begin();
  Node out = Node::Map();
  out.Add("apiVersion", Node::String(api_version));
  out.Add("fieldsType", Node::String("FieldsV1"));
  out.Add("fieldsV1", Encode(begin, set.end(), 0));
  out.Add("manager", Node::String(manager.name));
  out.Add("operation", Node::String(manager.applies ? "Apply" : "Update"));
  if (manager.subresource != Subresource::kNone) {
    out.Add("subresource", Node::String(NameOf(manager.subresource)));
  }
  return out;
}

}  // namespace

Ownership ReadManagedFields(const Node& object) {
  Ownership out;
  const Node* const entries = FindAt(object, {"metadata", "managedFields"});
  if (entries == nullptr) return out;
  for (const Node& entry : entries->items) {
    FieldSetPath path;
    const Node* const fields = entry.Find("fieldsV1");
    if (fields != nullptr) Decode(*fields, path, out[ManagerOf(entry)]);
  }
  return out;
}

Ownership GivenManagedFields(const Node& next, const Node& live) {
  const Node* const entries = FindAt(next, {"metadata", "managedFields"});
  const bool says_nobody =
      entries != nullptr && entries->items.size() == 1 && entries->items[0].fields.empty();
  if (says_nobody) return {};
  Ownership given = ReadManagedFields(next);
  return given.empty() ? ReadManagedFields(live) : given;
}

void WriteManagedFields(const Ownership& ownership, const Node& before, WallTime now,
                        Node& object) {
  const Node* const was = FindAt(before, {"metadata", "managedFields"});
  Node entries = Node::List();
  for (const auto& [manager, set] : ownership) {
    Node entry = EntryOf(manager, set, TextAt(object, {"apiVersion"}));
    Node time = Node::String(FormatTime(now));
    for (size_t i = 0; was != nullptr && i < was->items.size(); ++i) {
      Node other = was->items[i];
      const Node since = *other.Find("time");
      RemoveField(other, "time");
      if (other == entry) time = since;
    }
    entry.Add("time", std::move(time));
    entries.items.push_back(std::move(entry));
  }
  if (entries.items.empty()) {
    RemoveField(*FindMutable(object, "metadata"), "managedFields");
  } else {
    SetAt(object, {"metadata", "managedFields"}, std::move(entries));
  }
}

}  // namespace janus::control
