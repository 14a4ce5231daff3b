#pragma once

#include "operator/kube/error.h"
#include "operator/kube/object_api.h"
#include "operator/local/store/kinds.h"

namespace janus::control {

// What stands between a caller's object and the tables. Pure.

// The object as the kind has it: fields sorted, those that it does not have dropped, nulls of
// built-in kinds too. 400: such fields, and `strict`.
ApiResult<Node> Conform(const Kind& kind, Node object, bool strict);

// Completes the object by its defaults, and judges it. `before` is null for a create. 422 with a
// cause for everything that is wrong; 413: larger than etcd's limit of 1.5 MiB as JSON.
ApiResult<Node> Admit(const Kind& kind, Node object, const Node* before);

// `next` as far as the subresource may write: its status alone, or all but that.
Node Confine(const Kind& kind, Subresource subresource, const Node& live, Node next);

// Whether nothing changed that metadata.generation counts.
bool IsSameGeneration(const Kind& kind, const Node& before, const Node& after);

}  // namespace janus::control
