#pragma once

#include <optional>

#include "operator/reconcile/children/scalers.h"
#include "operator/reconcile/spec/desired.h"

namespace janus::control {

// Mode External: the pods that a MoERoleScaler asks for become the role's minimum, and the plan
// adds instances that the model needs. Every pod has instancesPerPod instances. All pure.

// The service's MoERoleScaler for that role; null: none, or it has another owner.
const Node* ScalerOfRole(const ServiceObserved& seen, Role role);

// Sets the role's minimum to the requested count, within the spec's bounds. Without a MoERoleScaler
// of ours, the count stays as it is.
void TakeAskedCount(const PlanningSide& from, Role role, std::optional<int> before, Desired& out);

// Uses the plan's count, and reports it if the model needs more than requested.
void TakePlannedCount(const PlanningSide& from, Role role, Desired& out);

}  // namespace janus::control
