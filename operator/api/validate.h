#pragma once

#include "operator/api/moeservice.h"
#include "operator/api/tree.h"

namespace janus::control {

// Every rule that an object can be judged by alone, those that the CRD's schema and CEL carry
// included: the object store admits by it. Paths are the API server's; lines are unknown (AddLines
// fills them). Pure.
FieldErrors ValidateSchema(const MoEService& service, Scope scope = Scope::kAll);

// What may not change in an object's life: model.source's type and repository. Pure.
FieldErrors ValidateUpdate(const MoEService& before, const MoEService& after);

}  // namespace janus::control
