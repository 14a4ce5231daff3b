#pragma once

#include <map>
#include <string>
#include <vector>

#include "operator/kube/object_api.h"
#include "operator/local/store/field_set.h"

namespace janus::control {

// Who set which part of an object, and what follows for applying (Kubernetes, "Server-Side Apply").
// It stands in the object (managed_fields.h).
//
// Invariants:
// (1) Every part in a set is in the object.
// (2) Two managers own one part only when both said the same value.
struct FieldManager {
  std::string name;
  bool applies = false;  // what it applied is not what it updated
  Subresource subresource = Subresource::kNone;

  friend auto operator<=>(const FieldManager&, const FieldManager&) = default;
};
using Ownership = std::map<FieldManager, FieldSet>;  // no empty sets

// After a create, update or patch: what changed is the writer's alone. Pure.
Ownership AfterUpdate(const Ownership& before, const FieldManager& writer,
                      const ObjectParts& old_parts, const ObjectParts& new_parts);

struct FieldConflict {
  FieldManager manager;
  FieldSetPath path;
};

struct Applied {
  Node object;
  Ownership ownership;
  std::vector<FieldConflict> conflicts;  // others' parts that it would change
};

// `live` after `manager` (which applies) has applied `wanted`: what it says is set and owned, what
// the manager said the last time and leaves out now is removed unless somebody else owns it.
// `wanted` is apiVersion, kind, metadata and what the manager may write. With conflicts the result
// is what comes of taking those parts over. Pure.
Applied ApplyFields(const Node& live, const Ownership& ownership, const FieldManager& manager,
                    const Node& wanted, const TypeCursor& root);

}  // namespace janus::control
