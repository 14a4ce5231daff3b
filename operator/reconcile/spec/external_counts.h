#pragma once

#include <optional>

#include "operator/reconcile/children/scalers.h"
#include "operator/reconcile/spec/desired.h"

namespace janus::control {

// Mode External: what a MoERoleScaler asks for becomes the fewest instances that the role may have,
// and the plan adds what the model needs. All pure.

// The service's own MoERoleScaler of that role; null: there is none, or it has another owner.
const Node* ScalerOfRole(const ServiceObserved& seen, Role role);

// Sets the role's least count to what is asked for, within the spec's bounds. Until there is a
// MoERoleScaler, and while a foreign one has its name, the count stays what it is.
void TakeAskedCount(const PlanningSide& from, Role role, std::optional<int> before, Desired& out);

// Takes the count of the plan, and says so where the model needs more than is asked for.
void TakePlannedCount(const PlanningSide& from, Role role, Desired& out);

}  // namespace janus::control
