#include "operator/local/store/tree_edit.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace janus::control {
namespace {

bool IsNumber(const Node& node) {
  return node.kind == Node::Kind::kInteger || node.kind == Node::Kind::kFloat;
}

double Worth(const Node& number) {
  return number.kind == Node::Kind::kInteger ? static_cast<double>(number.integer)
                                             : std::strtod(number.text.c_str(), nullptr);
}

}  // namespace

Node* FindMutable(Node& map, std::string_view name) {
  return const_cast<Node*>(std::as_const(map).Find(name));
}

Node& PutField(Node& map, std::string_view name, Node value) {
  if (Node* const found = FindMutable(map, name)) {
    *found = std::move(value);
    return *found;
  }
  return map.Add(name, std::move(value));
}

bool RemoveField(Node& map, std::string_view name) {
  return std::erase_if(map.fields, [&](const NodeField& field) { return field.name == name; }) > 0;
}

void SortFields(Node& root) {
  for (Node& item : root.items) SortFields(item);
  for (NodeField& field : root.fields) SortFields(field.value);
  std::sort(root.fields.begin(), root.fields.end(),
            [](const NodeField& a, const NodeField& b) { return a.name < b.name; });
}

bool IsSameJson(const Node& a, const Node& b) {
  if (IsNumber(a) && IsNumber(b)) {
    if (a.kind == b.kind && a.kind == Node::Kind::kInteger) return a.integer == b.integer;
    return Worth(a) == Worth(b);
  }
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Node::Kind::kList:
      return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), IsSameJson);
    case Node::Kind::kMap:
      return a.fields.size() == b.fields.size() &&
             std::all_of(a.fields.begin(), a.fields.end(), [&](const NodeField& field) {
               const Node* const other = b.Find(field.name);
               return other != nullptr && IsSameJson(field.value, *other);
             });
    default:
      return a == b;
  }
}

size_t BytesOf(const Node& root) {
  size_t bytes = sizeof(Node) + root.text.size();
  for (const Node& item : root.items) bytes += BytesOf(item);
  for (const NodeField& field : root.fields) {
    bytes += sizeof(std::string) + field.name.size() + BytesOf(field.value);
  }
  return bytes;
}

}  // namespace janus::control
