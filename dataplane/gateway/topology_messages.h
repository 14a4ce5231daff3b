#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "proto/control.pb.h"

namespace janus::gateway {

// The instances that the gateway attaches to, from one committed topology.
struct AttentionMembers {
  uint64_t epoch = 0;
  std::vector<std::string> attention;  // gRPC addresses by rank
};

// A committed topology as a member reported it.
struct ToldTopology {
  AttentionMembers members;
  std::vector<std::string> addresses;  // of all instances, in the order to ask: attention first
};

// FailedPrecondition: the member has committed none. InvalidArgument names an impossible part.
// Accepting that topology would leave the gateway without instances. As the newest it would also
// hide every later one.
Result<ToldTopology> ReadTopology(const v1::GetTopologyReply& reply);

}  // namespace janus::gateway
