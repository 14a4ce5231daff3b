#pragma once

#include <optional>

#include "operator/api/tree.h"

namespace janus::control {

// A JSON patch by which server-side apply takes over what was made by POST: whoever made `there`
// with kWantedAnnotation becomes the one who applied it, so that the next apply removes what it no
// longer says. Refused by the server if `there` has changed since. Nothing: it is applied already,
// or nobody's. Source: Kubernetes, "Server-Side Apply", upgrading from client-side apply. Pure.
std::optional<Node> TakeoverPatch(const Node& there);

}  // namespace janus::control
