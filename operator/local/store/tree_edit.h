#pragma once

#include <cstddef>
#include <string_view>

#include "operator/api/tree.h"

namespace janus::control {

// Changes and compares JSON trees. Pure; thread-compatible.

// The field of that name, or null.
Node* FindMutable(Node& map, std::string_view name);

// Sets that field of a map; a new field goes to the end.
Node& PutField(Node& map, std::string_view name, Node value);

// False if the field does not exist.
bool RemoveField(Node& map, std::string_view name);

// Sorts the fields of every map by the bytes of their names, as the API server does. Two sorted
// trees of the same value compare equal with ==.
void SortFields(Node& root);

// True if both are the same JSON value: the order of fields does not matter, and numbers compare by
// value (RFC 6902, section 4.6).
bool IsSameJson(const Node& a, const Node& b);

// Memory of the tree, without its spare capacity.
size_t BytesOf(const Node& root);

}  // namespace janus::control
