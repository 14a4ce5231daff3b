#pragma once

#include "operator/reconcile/pass/observed.h"
#include "operator/reconcile/pass/settings.h"
#include "operator/reconcile/rollout/sides.h"
#include "operator/reconcile/spec/desired.h"

namespace janus::control {

// Which model is wanted, which one serves, and by which spec the service is kept.
struct Rollout {
  Sides sides;
  Desired desired;  // of the front side
};

// Decides it from the newest spec. Where that can never be carried out, what serves is kept by the
// last spec that it was whole under; where it wants another model, `spec.rollout.type` says whether
// the new model comes beside the old one (SideBySide: the pods are divided), after it (Recreate:
// Desired::ends), or not at all (Rolling: the spec is not supported). Pure.
Rollout DecideRollout(const ServiceObserved& seen, const ReconcilerOptions& options);

// The planning side of the front, or of the old side.
PlanningSide FrontOf(const ServiceObserved& seen, const ReconcilerOptions& options,
                     const Sides& sides);

}  // namespace janus::control
