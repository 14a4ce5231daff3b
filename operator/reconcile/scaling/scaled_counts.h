#pragma once

#include "operator/reconcile/spec/desired.h"

namespace janus::control {

// What decisions want enters the plan here, for roles in mode SLO. Pure.

// Sets the count that the last decision wants, within the spec's bounds, and the micro-batches that
// it chose if the spec leaves them open. Before the first decision of this process the count is the
// one of the status, so a new leader changes nothing; a new service begins with minReplicas, and
// the plan raises that to the fewest instances that hold the model.
void TakeScaledCount(const PlanningSide& from, Role role, std::optional<int> before, Desired& out);
void TakeMicroBatches(const PlanningSide& from, Desired& out);

}  // namespace janus::control
