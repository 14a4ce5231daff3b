#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "operator/api/tree.h"

namespace janus::control {

// Reads fields of any kind's object without a typed struct. A missing field, or one of another
// type, reads as empty: the API server has validated its objects.

using FieldPath = std::initializer_list<std::string_view>;

// The value at that path, or null.
const Node* FindAt(const Node& root, FieldPath path);
// The string at that path; valid as long as `root`.
std::string_view TextAt(const Node& root, FieldPath path);
std::optional<int64_t> IntegerAt(const Node& root, FieldPath path);

// Sets the value at that path. Creates maps on the way, and replaces a value that is not a map.
void SetAt(Node& root, FieldPath path, Node value);

// Which object of a resource. An empty namespace: cluster-scoped.
struct ObjectKey {
  std::string namespace_;
  std::string name;

  // "namespace/name", or "name".
  std::string ToString() const;
  friend auto operator<=>(const ObjectKey&, const ObjectKey&) = default;
};

ObjectKey KeyOf(const Node& object);
std::string_view UidOf(const Node& object);
std::string_view ResourceVersionOf(const Node& object);

}  // namespace janus::control
