#pragma once

#include <string>

#include "common/topology.h"
#include "operator/api/moeservice.h"
#include "operator/api/tree.h"
#include "operator/reconcile/children/children.h"
#include "operator/reconcile/status/status.h"

namespace janus::control {

// Mode External: how many pods a role has is said by whoever writes the scale subresource of its
// MoERoleScaler, <service>-<role>. All pure.

bool IsExternal(const RoleSpec& role);

// "MoERoleScaler chat-experts asks for 4".
std::string WhatIsAsked(const MoEService& service, Role role, int count);

// What of `asked` the spec's bounds leave.
struct BoundedCount {
  int count = 0;
  Cause limit = {};  // AtMin or AtMax, and whose; empty: as asked
};
BoundedCount BoundBySpec(const MoEService& service, Role role, int asked);

// The MoERoleScaler. It is made with `replicas`, which are nobody's but the user's from then on:
// what is mended of one that is there leaves them out.
Child ScalerOf(const MoEService& service, Role role, int replicas);

// spec.replicas; `scaler` is of its schema.
int AskedOf(const Node& scaler);

// The scaler with its new status: members of the committed topology, how to select them, and Ready,
// which says the same as the condition of its role and of the bounds. `scaler` is the newest.
Node WithScalerStatus(const Node& scaler, const ServiceSeen& seen, Role role);

}  // namespace janus::control
