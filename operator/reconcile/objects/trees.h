#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "operator/api/tree.h"

namespace janus::control {

// Builders for JSON trees.

inline Node Object(std::initializer_list<std::pair<std::string_view, Node>> fields) {
  Node out = Node::Map();
  for (const auto& [name, value] : fields) out.Add(name, value);
  return out;
}

inline Node ListOf(std::initializer_list<Node> items) {
  Node out = Node::List();
  out.items.assign(items);
  return out;
}

inline Node Text(std::string_view value) {
  return Node::String(value);
}

// A map of strings: labels, annotations, selectors.
template <class Pairs>
Node TextMap(const Pairs& pairs) {
  Node out = Node::Map();
  for (const auto& [name, value] : pairs) out.Add(name, Node::String(value));
  return out;
}

}  // namespace janus::control
