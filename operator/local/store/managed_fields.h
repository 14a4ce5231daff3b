#pragma once

#include "common/clock.h"
#include "operator/local/store/field_ownership.h"

namespace janus::control {

// metadata.managedFields of an object: who owns which of its fields, as FieldsV1.

Ownership ReadManagedFields(const Node& object);

// An entry that says what `before` says keeps its time; the others were written `now`.
void WriteManagedFields(const Ownership& ownership, const Node& before, WallTime now, Node& object);

}  // namespace janus::control
