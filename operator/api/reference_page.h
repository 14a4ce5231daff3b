#pragma once

#include <span>
#include <string>

#include "operator/api/tree.h"

namespace janus::control {

// docs/api.md, generated from the CustomResourceDefinitions: for each kind its names, all fields
// with type, bounds, default and description, messages of rules, and the columns of `kubectl get`.
// Fields that an earlier object has too become a reference to it. Pure.
std::string ReferencePage(std::span<const Node> crds);

}  // namespace janus::control
