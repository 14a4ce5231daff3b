#pragma once

#include "common/status.h"
#include "operator/api/tree.h"

namespace janus::control {

// `document` after every operation of `patch`, in order (JSON Patch, RFC 6902; places are JSON
// Pointers, RFC 6901). All of them are done, or none. Pure.
// InvalidArgument: no JSON Patch, or more than 10,000 operations, as the API server counts.
// FailedPrecondition: it does not fit this document: a place that is not there, a test that fails,
// a value moved into itself, copies that would grow the document beyond 16 MiB.
Result<Node> JsonPatch(Node document, const Node& patch);

}  // namespace janus::control
