#pragma once

#include "operator/api/moeservice.h"
#include "operator/api/tree.h"
#include "operator/reconcile/children/children.h"

namespace janus::control {

// Values of a podTemplate that no pod would get, because the operator sets them: one error each,
// with its path. No error: an equal value, or a value that a field of the spec overrides
// (nodeSelector, resources, ...). Pure.
FieldErrors TemplateConflicts(const MoEService& given, const OperatorDefaults& defaults);

}  // namespace janus::control
