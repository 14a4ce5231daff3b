#pragma once

#include <string>

#include "operator/api/moe_topology.h"

namespace janus::control {

// How a member is called wherever people read of it, and in calls that are relayed: as short as it
// can be told from the others by, then where to look for it.
//
//   on a cluster      experts-2 (pod chat-experts-5d41402abc-2, 10.0.0.3:9000)
//   on one machine    experts-2
//   without a pod of our naming   experts at unix:/run/janus/e2.sock
//
// The number is the pod's id, which never changes, and not the rank, which does. Pure.
std::string MemberName(const TopologyInstance& member);

}  // namespace janus::control
