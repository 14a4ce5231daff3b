// A member's report of the topology to a gateway: accepted only with an instance to attach to.

#include <cstdint>

#include "common/check.h"
#include "dataplane/gateway/topology_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace janus;  // NOLINT
  v1::GetTopologyReply reply;
  if (!reply.ParseFromArray(data, static_cast<int>(size))) return 0;
  const Result<gateway::ToldTopology> told = gateway::ReadTopology(reply);
  if (!told.ok()) {
    JANUS_CHECK(!told.status().message().empty());
    return 0;
  }
  JANUS_CHECK(told->members.epoch > 0 && !told->members.attention.empty());
  JANUS_CHECK(told->addresses.size() >= told->members.attention.size());
  for (const std::string& address : told->addresses) JANUS_CHECK(!address.empty());
  return 0;
}
