#pragma once

#include "common/clock.h"
#include "operator/local/store/field_ownership.h"

namespace janus::control {

// metadata.managedFields of an object: who owns which of its fields, as FieldsV1.

Ownership ReadManagedFields(const Node& object);

// Who owns what before an update that is to make `next` of `live`: what `next` says of it, by which
// ownership is handed over; one empty entry: nobody owns anything. `live`'s where it says nothing.
Ownership GivenManagedFields(const Node& next, const Node& live);

// An entry that says what `before` says keeps its time; the others were written `now`.
void WriteManagedFields(const Ownership& ownership, const Node& before, WallTime now, Node& object);

}  // namespace janus::control
