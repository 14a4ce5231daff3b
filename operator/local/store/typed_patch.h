#pragma once

#include <optional>
#include <string>

#include "operator/api/tree.h"
#include "operator/local/store/list_types.h"

namespace janus::control {

// What keeps an applied object from being merged part by part: a field that the schema does not
// have, another type, entries of a list that are called alike or not at all (structured-merge-diff,
// "typed"). ".spec.replicas: expected integer, got a string"; nothing: it can be. Of built-in kinds
// only lists and metadata are known. Pure.
std::optional<std::string> WhyNotTyped(const Node& object, const TypeCursor& root);

}  // namespace janus::control
