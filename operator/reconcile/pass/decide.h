#pragma once

#include "operator/reconcile/pass/observed.h"
#include "operator/reconcile/pass/plan.h"
#include "operator/reconcile/pass/settings.h"

namespace janus::control {

// The next actions for the service. Pure: the same observation gives the same plan.
//
// Subjects, in this order, each in a folder of its own:
//   rollout      which model, which spec, how many instances
//   certificates what may start, and be called
//   children     everything that is neither pod nor topology
//   pods         made, marked as members, removed
//   epochs       the next step of each topology
//   status       conditions, numbers and Events
// A later subject sees what an earlier one has decided, and no subject what another one will do.
Plan Decide(const ServiceObserved& seen, const ReconcilerOptions& options);

}  // namespace janus::control
