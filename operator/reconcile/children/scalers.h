#pragma once

#include <string>

#include "common/topology.h"
#include "operator/api/moeservice.h"
#include "operator/api/tree.h"
#include "operator/reconcile/children/children.h"
#include "operator/reconcile/status/status.h"

namespace janus::control {

// Mode External: a user or an autoscaler sets a role's count through the scale subresource of its
// MoERoleScaler, <service>-<role>. All pure.

bool IsExternal(const RoleSpec& role);

// "MoERoleScaler chat-experts asks for 4".
std::string WhatIsAsked(const MoEService& service, Role role, int count);

// The instances of `asked` pods, all full, within the spec's bounds.
struct BoundedCount {
  int count = 0;
  Cause limit = {};  // AtMin or AtMax, with the role; empty: no bound applies
};
BoundedCount BoundBySpec(const MoEService& service, Role role, int asked);

// The MoERoleScaler. Its `replicas` count pods, and are set only on creation. From then on they
// belong to the user, and later applies leave them out.
Child ScalerOf(const MoEService& service, Role role, int instances);

// spec.replicas of a `scaler` that matches the schema.
int AskedOf(const Node& scaler);

// The scaler with its new status: pods of the committed topology, their selector, and Ready,
// which matches the conditions of its role and bounds. `scaler` is the newest version.
Node WithScalerStatus(const Node& scaler, const StatusFacts& seen, Role role);

}  // namespace janus::control
