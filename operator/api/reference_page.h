#pragma once

#include <span>
#include <string>

#include "operator/api/tree.h"

namespace janus::control {

// docs/api.md, printed from the CustomResourceDefinitions: of each kind its names, every field with
// its type, bounds, default and description, messages of rules, and the columns of `kubectl get`.
// Fields that an object shares with one before it are a reference to that one. Pure.
std::string ReferencePage(std::span<const Node> crds);

}  // namespace janus::control
