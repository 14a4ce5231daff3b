#pragma once

#include "operator/reconcile/pass/observed.h"
#include "operator/reconcile/pass/settings.h"
#include "operator/reconcile/rollout/sides.h"
#include "operator/reconcile/spec/desired.h"

namespace janus::control {

// Which model is wanted, which one serves, and which spec is in force.
struct Rollout {
  Sides sides;
  Desired desired;  // of the front side
};

// Decides from the newest spec. If that can never be carried out, the last spec under which the
// whole service ran stays in force. If it wants another model, `spec.rollout.type` decides: the new
// model comes beside the old one (SideBySide: pods are divided), after it (Recreate:
// Desired::ends), or never (Rolling: the spec is not supported). Pure.
Rollout DecideRollout(const ServiceObserved& seen, const ReconcilerOptions& options);

// The front or the old side as input for planning.
PlanningSide FrontOf(const ServiceObserved& seen, const ReconcilerOptions& options,
                     const Sides& sides);

}  // namespace janus::control
