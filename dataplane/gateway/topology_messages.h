#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "proto/control.pb.h"

namespace janus::gateway {

// The instances that the gateway attaches to, by one committed topology.
struct AttentionMembers {
  uint64_t epoch = 0;
  std::vector<std::string> attention;  // gRPC addresses by rank
};

// What a member tells of the committed topology.
struct ToldTopology {
  AttentionMembers members;
  std::vector<std::string> addresses;  // of all instances, in the order to ask: attention first
};

// FailedPrecondition: the member has committed none. InvalidArgument names what no topology can be:
// taken at its word, it would leave the gateway without instances and, being the newest, hide every
// topology after it.
Result<ToldTopology> ReadTopology(const v1::GetTopologyReply& reply);

}  // namespace janus::gateway
