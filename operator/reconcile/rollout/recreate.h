#pragma once

#include <vector>

#include "operator/reconcile/pods/pods.h"
#include "operator/reconcile/rollout/sides.h"
#include "operator/reconcile/spec/desired.h"

namespace janus::control {

// Rollout Recreate: a service goes over to a model that cannot share an epoch with the one that
// serves. Step by step, each decided from what is there:
//
//   the new model is known       from its folder, or from a first pod of the new revision
//   record: endedEpoch           compare-and-swap: here it is decided
//   the old attention drains     up to rollout.drainSeconds from endedAt; gateways hold new
//   requests the old pods go              of both roles pods come, an epoch follows  as for a
//   service that begins, its number above the ended one's
//
// All pure.

// Whether the pod belongs to what has ended: nothing that it holds can be of use.
bool IsOld(const Side& side, const PodSeen& pod, const RoleWanted& wanted);

// Whether pods of an ended epoch are still there: no new ones come before they have gone, as they
// have the room.
bool HasOldPods(const Side& side, const Desired& desired);

// Deletes the old pods of a role, and makes none.
PodPlan PlanRecreation(const Side& side, Role role, const RoleWanted& wanted);

// What the condition says of them.
Cause RecreatingCause(const Side& side, const Desired& desired, bool are_released);

}  // namespace janus::control
