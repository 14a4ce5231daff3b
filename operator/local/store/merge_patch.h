#pragma once

#include "operator/api/tree.h"

namespace janus::control {

// `target` as `patch` asks for (JSON Merge Patch, RFC 7386): maps are merged, a null removes, and
// anything else replaces. Pure; every patch can be done.
Node MergePatch(Node target, const Node& patch);

}  // namespace janus::control
