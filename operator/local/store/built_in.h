#pragma once

#include <string_view>

#include "operator/api/tree.h"

namespace janus::control {

// Defaulting and validation of a kind. `before`: null for a create. A null function does nothing.
struct KindRules {
  void (*complete)(Node& object, const Node* before) = nullptr;
  FieldErrors (*judge)(const Node& object, const Node* before) = nullptr;
};

// The rules of an API server for the built-in kinds that the operator writes: defaults, immutable
// fields, and duplicate entries of lists. Other fields are not checked. Source: Kubernetes API
// reference v1.35; the conformance suite compares with a real server. Pure.
KindRules BuiltInRules(std::string_view kind);

}  // namespace janus::control
