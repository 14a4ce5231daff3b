#pragma once

#include <vector>

#include "operator/reconcile/children.h"
#include "operator/reconcile/pass_context.h"

namespace janus::control {

// Makes the children that are missing and mends those that differ, by server-side apply; deletes
// the budgets, scalers and NetworkPolicies of ours that are wanted no more. A foreign object of the
// same name stays as it is: an Event AdoptRefused, and a Trouble of that reason.
//
// Before a child is made the server itself is asked for it, since a foreign one may carry none of
// our labels and be in no cache. Who makes one between that question and our apply, milliseconds
// later, shares it with us: server-side apply has no "only if absent".
void WriteChildren(const std::vector<Child>& wanted, MendedVersions& mended, PassContext& context);

}  // namespace janus::control
