#pragma once

#include "operator/reconcile/pass/observed.h"
#include "operator/reconcile/pass/plan.h"
#include "operator/reconcile/pass/settings.h"

namespace janus::control {

// The next actions for the service. Pure: the same observation gives the same plan.
//
// Subjects, in this order, each in its own folder:
//   rollout      which model, which spec, how many instances
//   model        the Job that fetches it from a hub
//   certificates which pods may start, and whether workers may be called
//   children     all objects except pods and topologies
//   pods         created, marked as members, removed
//   epochs       the next step of each topology
//   status       conditions, numbers and Events
// A subject uses only the decisions of earlier subjects.
Plan Decide(const ServiceObserved& seen, const ReconcilerOptions& options);

}  // namespace janus::control
