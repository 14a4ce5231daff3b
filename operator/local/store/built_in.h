#pragma once

#include <string_view>

#include "operator/api/tree.h"

namespace janus::control {

// How objects of a kind are completed and judged. `before`: null for a create. A function that is
// null: nothing to do.
struct KindRules {
  void (*complete)(Node& object, const Node* before) = nullptr;
  FieldErrors (*judge)(const Node& object, const Node* before) = nullptr;
};

// What an API server makes of the built-in kinds that the operator writes: defaults, fields
// that may not change, and entries of lists that are called alike. Their other fields are taken as
// they come. Source: Kubernetes API reference v1.35; the conformance suite asks a real server for
// the same. Pure.
KindRules BuiltInRules(std::string_view kind);

}  // namespace janus::control
