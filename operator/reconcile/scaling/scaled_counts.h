#pragma once

#include "operator/reconcile/capacity/pinned_plan.h"
#include "operator/reconcile/spec/desired.h"

namespace janus::control {

// What decisions want enters the plan here, for roles in mode SLO. Pure.

// Sets the count that the last decision wants, within the spec's bounds, and the micro-batches that
// it chose if the spec leaves them open. Before the first decision of this process the count is the
// one of the status, so a new leader changes nothing; a new service begins with minReplicas, and
// the plan raises that to the fewest instances that hold the model.
void TakeScaledCount(const PlanningSide& from, Role role, std::optional<int> before, Desired& out);
void TakeMicroBatches(const PlanningSide& from, Desired& out);

// The micro-batches that memory is planned for: the number of the user's spec; if that leaves them
// open, the most that decisions may choose, or the number chosen by now. At least 1. Pure.
int RoomForMicroBatches(const Desired& desired);

// The plan of `plan_model` for `service`, which has the number of its micro-batches, with memory
// for `room` of them. So another number up to `room` changes neither slots nor keys and values, and
// always fits: the memory that is planned for a number is enough for each smaller one too. If the
// memory holds fewer, `room` becomes the most that it holds, at least `least`; and the plan has no
// more. Errors: of the last call of `plan_model`. Pure.
janus::Result<PlannedService> PlanWithRoomFor(PlanModel plan_model, const MoEService& service,
                                              int least, int& room);

}  // namespace janus::control
