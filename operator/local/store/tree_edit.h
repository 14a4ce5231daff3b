#pragma once

#include <cstddef>
#include <string_view>

#include "operator/api/tree.h"

namespace janus::control {

// Changes to trees, and comparisons that JSON asks for. Pure; thread-compatible.

// The field of that name, or null.
Node* FindMutable(Node& map, std::string_view name);

// Sets that field of a map, where it stands or at the end.
Node& PutField(Node& map, std::string_view name, Node value);

// False when there is none.
bool RemoveField(Node& map, std::string_view name);

// Every map's fields in the order of their names' bytes, as the API server writes maps: two sorted
// trees of one value are equal by ==.
void SortFields(Node& root);

// One JSON value: the order of fields does not count, and numbers are equal by what they are worth
// (RFC 6902, section 4.6).
bool IsSameJson(const Node& a, const Node& b);

// Memory the tree takes, its spare capacity aside.
size_t BytesOf(const Node& root);

}  // namespace janus::control
