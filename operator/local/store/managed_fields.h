#pragma once

#include "common/clock.h"
#include "operator/local/store/field_ownership.h"

namespace janus::control {

// Reads and writes metadata.managedFields: which manager owns which fields, as FieldsV1.

Ownership ReadManagedFields(const Node& object);

// The ownership before an update from `live` to `next`. It comes from managedFields in `next`,
// which lets a caller hand ownership over; one empty entry clears it. If `next` has none, it comes
// from `live`.
Ownership GivenManagedFields(const Node& next, const Node& live);

// An entry equal to the one in `before` keeps its time; the others get `now`.
void WriteManagedFields(const Ownership& ownership, const Node& before, WallTime now, Node& object);

}  // namespace janus::control
