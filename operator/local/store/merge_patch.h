#pragma once

#include "operator/api/tree.h"

namespace janus::control {

// Applies `patch` to `target` (JSON Merge Patch, RFC 7386): maps are merged, a null removes, and
// anything else replaces. Pure; never fails.
Node MergePatch(Node target, const Node& patch);

}  // namespace janus::control
