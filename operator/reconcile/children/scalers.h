#pragma once

#include <string>

#include "common/topology.h"
#include "operator/api/moeservice.h"
#include "operator/api/tree.h"
#include "operator/reconcile/children/children.h"
#include "operator/reconcile/status/status.h"

namespace janus::control {

// Mode External: the count of a role is what a user or an autoscaler writes into the scale
// subresource of its MoERoleScaler, <service>-<role>. All pure.

bool IsExternal(const RoleSpec& role);

// "MoERoleScaler chat-experts asks for 4".
std::string WhatIsAsked(const MoEService& service, Role role, int count);

// What of `asked` the spec's bounds leave.
struct BoundedCount {
  int count = 0;
  Cause limit = {};  // AtMin or AtMax, and whose; empty: as asked
};
BoundedCount BoundBySpec(const MoEService& service, Role role, int asked);

// The MoERoleScaler. It is created with `replicas`, which belong to the user from then on: a later
// apply leaves them out.
Child ScalerOf(const MoEService& service, Role role, int replicas);

// spec.replicas; `scaler` is of its schema.
int AskedOf(const Node& scaler);

// The scaler with its new status: members of the committed topology, how to select them, and Ready,
// which says the same as the condition of its role and of the bounds. `scaler` is the newest.
Node WithScalerStatus(const Node& scaler, const StatusFacts& seen, Role role);

}  // namespace janus::control
