#pragma once

#include <map>
#include <string>
#include <vector>

#include "operator/kube/object_api.h"
#include "operator/local/store/field_set.h"

namespace janus::control {

// Which manager set which part of an object (Kubernetes, "Server-Side Apply"). The object stores
// this (managed_fields.h).
//
// Invariants:
// (1) Every part in a set exists in the object.
// (2) Two managers own the same part only if both set the same value.
struct FieldManager {
  std::string name;
  bool applies = false;  // true: its apply entry; false: its update entry
  Subresource subresource = Subresource::kNone;

  friend auto operator<=>(const FieldManager&, const FieldManager&) = default;
};
using Ownership = std::map<FieldManager, FieldSet>;  // no empty sets

// After a create, update or patch: the writer is the only owner of what changed. Pure.
Ownership AfterUpdate(const Ownership& before, const FieldManager& writer,
                      const ObjectParts& old_parts, const ObjectParts& new_parts);

struct FieldConflict {
  FieldManager manager;
  FieldSetPath path;
};

struct Applied {
  Node object;
  Ownership ownership;
  std::vector<FieldConflict> conflicts;  // parts of other managers that the apply would change
};

// Returns `live` after `manager` has applied `wanted`. It sets and owns what `wanted` contains. It
// removes what the manager applied before and left out now, unless another manager owns it.
// `wanted` has apiVersion, kind, metadata and what the manager may write. If there are conflicts,
// the result is as if the manager took those parts over. Pure.
Applied ApplyFields(const Node& live, const Ownership& ownership, const FieldManager& manager,
                    const Node& wanted, const TypeCursor& root);

}  // namespace janus::control
