#pragma once

#include <vector>

#include "operator/reconcile/pods/pods.h"
#include "operator/reconcile/rollout/sides.h"
#include "operator/reconcile/spec/desired.h"

namespace janus::control {

// Rollout Recreate: replaces a model by one that cannot share an epoch with it. Each step is
// decided from the current state:
//
//   the new model is known       from its folder, or from a first pod of the new revision
//   record: endedEpoch           compare-and-swap; this decides
//   the old attention drains     up to rollout.drainSeconds from endedAt; gateways hold new
//                                requests
//   the old pods go              both roles' pods are created, and an epoch follows as in a new
//                                service, with a number above the ended one's
//
// All pure.

// True if the pod belongs to the ended epoch, so that nothing it holds is useful.
bool IsOld(const Side& side, const PodSeen& pod, const RoleWanted& wanted);

// True while pods of an ended epoch exist. New pods wait for their resources.
bool HasOldPods(const Side& side, const Desired& desired);

// Deletes the old pods of a role, and creates none.
PodPlan PlanRecreation(const Side& side, Role role, const RoleWanted& wanted);

// The text of the condition meanwhile.
Cause RecreatingCause(const Side& side, const Desired& desired, bool are_released);

}  // namespace janus::control
