#pragma once

#include <string>

#include "operator/kube/error.h"
#include "operator/kube/object_api.h"
#include "operator/local/store/kinds.h"

namespace janus::control {

// Validates and completes objects before they are stored. Pure.

// How to read an object from a request body, or from the result of a patch.
struct Reading {
  bool strict = true;  // refuse unknown fields instead of dropping them
  bool is_patch = false;
};

// The error for an unreadable object: 400 for a body, 422 for the result of a patch.
ApiError Unreadable(const Reading& reading, const std::string& why);

// Returns the object in its canonical form: fields sorted, unknown fields dropped, also nulls of
// built-in kinds and repeated owners. Unreadable: unknown fields if `strict`, or a metadata field
// of the wrong type.
ApiResult<Node> Conform(const Kind& kind, Node object, const Reading& reading);
// The same for a Scale.
ApiResult<Node> ConformScale(Node scale, const Reading& reading);

// Adds defaults and validates the object. `before` is null for a create. 422 with one cause per
// problem; 413: larger than etcd's limit of 1.5 MiB as JSON.
ApiResult<Node> Admit(const Kind& kind, Node object, const Node* before);

// Returns `next` with only the changes that the subresource may make: only its status, or all but
// status.
Node Confine(const Kind& kind, Subresource subresource, const Node& live, Node next);

// True if nothing changed that metadata.generation counts.
bool IsSameGeneration(const Kind& kind, const Node& before, const Node& after);

}  // namespace janus::control
