#pragma once

#include <vector>

#include "operator/reconcile/children/children.h"
#include "operator/reconcile/pass/pass_context.h"

namespace janus::control {

// Makes the children that are missing, by POST, and mends those that differ, by server-side apply;
// deletes the budgets, scalers and NetworkPolicies of ours that are wanted no more. A foreign
// object of the same name stays as it is, in whatever cache or none it may be: an Event
// AdoptRefused, and a Refusal of that reason.
void WriteChildren(const std::vector<Child>& wanted, MendedVersions& mended, PassContext& context);

}  // namespace janus::control
