#pragma once

#include "operator/api/object.h"
#include "operator/api/tree.h"

namespace janus::control {

// Returns `read` and those of `bounds` that are not at or below a path in `read`, in document
// order. Pure.
FieldErrors WithBounds(const Node& root, FieldErrors read, FieldErrors bounds);

// All schema and rule errors of an object at once, as the API server reports them: unreadable
// fields, and bounds of the others. Rules over several fields are checked only if all fields were
// readable. `root`: the tree that was read. Pure.
template <class Object>
FieldErrors ValidateRead(const Node& root, const Parsed<Object>& parsed) {
  if (parsed.errors.empty()) return ValidateSchema(parsed.object);
  return WithBounds(root, parsed.errors, ValidateSchema(parsed.object, Scope::kSingleFields));
}

}  // namespace janus::control
