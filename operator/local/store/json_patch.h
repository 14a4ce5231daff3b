#pragma once

#include "common/status.h"
#include "operator/api/tree.h"

namespace janus::control {

// Applies the operations of `patch` in order, all or none (JSON Patch, RFC 6902; paths are JSON
// Pointers, RFC 6901). Pure. InvalidArgument: not a JSON Patch, or more than 10,000 operations, the
// API server's limit. FailedPrecondition: it does not fit this document: a missing path, a failed
// test, a value moved into itself, or copies that would grow the document beyond 16 MiB.
Result<Node> JsonPatch(Node document, const Node& patch);

}  // namespace janus::control
