#pragma once

#include "operator/api/moeservice.h"
#include "operator/api/tree.h"

namespace janus::control {

// Checks every rule that needs only the object, including those of the CRD's schema and CEL; the
// object store uses it for admission. Paths are the API server's; lines are unknown (AddLines sets
// them). Pure.
FieldErrors ValidateSchema(const MoEService& service, Scope scope = Scope::kAll);

// Refuses changes of immutable fields: type and repository of model.source. Pure.
FieldErrors ValidateUpdate(const MoEService& before, const MoEService& after);

}  // namespace janus::control
