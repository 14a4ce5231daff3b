#include "operator/local/store/merge_patch.h"

#include <utility>

#include "operator/local/store/tree_edit.h"

namespace janus::control {

Node MergePatch(Node target, const Node& patch) {
  if (patch.kind != Node::Kind::kMap) return patch;
  if (target.kind != Node::Kind::kMap) target = Node::Map();
  for (const NodeField& field : patch.fields) {
    if (field.value.kind == Node::Kind::kNull) {
      RemoveField(target, field.name);
      continue;
    }
    Node* const found = FindMutable(target, field.name);
    Node merged = MergePatch(found != nullptr ? std::move(*found) : Node(), field.value);
    PutField(target, field.name, std::move(merged));
  }
  return target;
}

}  // namespace janus::control
