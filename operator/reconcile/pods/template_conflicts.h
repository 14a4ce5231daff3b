#pragma once

#include "operator/api/moeservice.h"
#include "operator/api/tree.h"
#include "operator/reconcile/children/children.h"

namespace janus::control {

// What a podTemplate says and no pod would have, as it is the operator's to say: one error for each
// such value, at its path. What both say alike is no error, nor what a field of the spec says
// otherwise (nodeSelector, resources, ...), which is the stronger one. Pure.
FieldErrors TemplateConflicts(const MoEService& given, const OperatorDefaults& defaults);

}  // namespace janus::control
