#pragma once

#include <string>

#include "operator/api/moe_topology.h"

namespace janus::control {

// The name of a member in messages and in relayed calls: a short unique name, then where to find
// it.
//
//   on a cluster      experts-2 (pod chat-experts-5d41402abc-2, 10.0.0.3:9000)
//   on one machine    experts-2
//   other pod names   experts at unix:/run/janus/e2.sock
//
// The number is the pod's id, which never changes, not the rank, which does. Pure.
std::string MemberName(const TopologyInstance& member);

}  // namespace janus::control
