#pragma once

#include <optional>
#include <string>

#include "operator/api/tree.h"
#include "operator/local/store/list_types.h"

namespace janus::control {

// Why an applied object cannot be merged by parts: an unknown field, a wrong type, or list entries
// with a repeated or missing key (structured-merge-diff, "typed"). ".spec.replicas: expected
// integer, got a string"; nothing: it can be merged. For built-in kinds only lists and metadata are
// checked. Pure.
std::optional<std::string> WhyNotTyped(const Node& object, const TypeCursor& root);

}  // namespace janus::control
