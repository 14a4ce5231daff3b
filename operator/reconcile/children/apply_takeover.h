#pragma once

#include <optional>

#include "operator/api/tree.h"

namespace janus::control {

// A JSON patch that moves an object created by POST to server-side apply. The manager that created
// `there` with kWantedAnnotation becomes its applier, so that the next apply removes fields that it
// no longer has. The server refuses the patch if `there` has changed. Nothing: it is applied
// already, or has no such manager. Source: Kubernetes, "Server-Side Apply", upgrading from
// client-side apply. Pure.
std::optional<Node> TakeoverPatch(const Node& there);

}  // namespace janus::control
