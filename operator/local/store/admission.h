#pragma once

#include <string>

#include "operator/kube/error.h"
#include "operator/kube/object_api.h"
#include "operator/local/store/kinds.h"

namespace janus::control {

// What stands between a caller's object and the tables. Pure.

// How an object is read that came as a body, or that a patch made of what is there.
struct Reading {
  bool strict = true;  // fields that are not there are refused, not dropped
  bool is_patch = false;
};

// The error of what cannot be read: 400 for a body, 422 for what a patch made.
ApiError Unreadable(const Reading& reading, const std::string& why);

// The object as the kind has it: fields sorted, those that it and metadata do not have dropped,
// nulls of built-in kinds and an owner that is named twice too. Unreadable: such fields, if
// `strict`; a field of metadata of another type.
ApiResult<Node> Conform(const Kind& kind, Node object, const Reading& reading);
// The same of a Scale.
ApiResult<Node> ConformScale(Node scale, const Reading& reading);

// Completes the object by its defaults, and judges it. `before` is null for a create. 422 with a
// cause for everything that is wrong; 413: larger than etcd's limit of 1.5 MiB as JSON.
ApiResult<Node> Admit(const Kind& kind, Node object, const Node* before);

// `next` as far as the subresource may write: its status alone, or all but that.
Node Confine(const Kind& kind, Subresource subresource, const Node& live, Node next);

// Whether nothing changed that metadata.generation counts.
bool IsSameGeneration(const Kind& kind, const Node& before, const Node& after);

}  // namespace janus::control
