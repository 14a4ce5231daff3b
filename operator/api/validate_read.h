#pragma once

#include "operator/api/object.h"
#include "operator/api/tree.h"

namespace janus::control {

// `read` and, of `bounds`, what is neither at nor below the path of one of those; in the order of
// the document. Pure.
FieldErrors WithBounds(const Node& root, FieldErrors read, FieldErrors bounds);

// All that is wrong with an object by its schema and rules, told at once as by the API server: what
// could not be read, and what is out of bounds of the rest. Rules that look at several fields are
// judged where all could be read. `root`: what was read. Pure.
template <class Object>
FieldErrors ValidateRead(const Node& root, const Parsed<Object>& parsed) {
  if (parsed.errors.empty()) return ValidateSchema(parsed.object);
  return WithBounds(root, parsed.errors, ValidateSchema(parsed.object, Scope::kSingleFields));
}

}  // namespace janus::control
