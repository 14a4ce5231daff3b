#include "operator/kube/object.h"

#include <utility>

namespace janus::control {

const Node* FindAt(const Node& root, FieldPath path) {
  const Node* node = &root;
  for (const std::string_view name : path) {
    node = node->Find(name);
    if (node == nullptr) return nullptr;
  }
  return node;
}

std::string_view TextAt(const Node& root, FieldPath path) {
  const Node* const node = FindAt(root, path);
  return node != nullptr && node->kind == Node::Kind::kString ? std::string_view(node->text) : "";
}

std::optional<int64_t> IntegerAt(const Node& root, FieldPath path) {
  const Node* const node = FindAt(root, path);
  if (node == nullptr || node->kind != Node::Kind::kInteger) return std::nullopt;
  return node->integer;
}

void SetAt(Node& root, FieldPath path, Node value) {
  Node* node = &root;
  for (const std::string_view name : path) {
    if (node->kind != Node::Kind::kMap) *node = Node::Map();
    Node* found = const_cast<Node*>(std::as_const(*node).Find(name));
    node = found != nullptr ? found : &node->Add(name, Node());
  }
  *node = std::move(value);
}

std::string ObjectKey::ToString() const {
  return namespace_.empty() ? name : namespace_ + "/" + name;
}

ObjectKey KeyOf(const Node& object) {
  return {std::string(TextAt(object, {"metadata", "namespace"})),
          std::string(TextAt(object, {"metadata", "name"}))};
}

std::string_view UidOf(const Node& object) {
  return TextAt(object, {"metadata", "uid"});
}

std::string_view ResourceVersionOf(const Node& object) {
  return TextAt(object, {"metadata", "resourceVersion"});
}

}  // namespace janus::control
