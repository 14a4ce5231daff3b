#include "dataplane/gateway/topology_messages.h"

#include "common/topology.h"

namespace janus::gateway {
namespace {

Status ReadAddresses(const char* role, int most,
                     const google::protobuf::RepeatedPtrField<v1::Instance>& instances,
                     std::vector<std::string>& to) {
  if (instances.size() > most) {
    return InvalidArgument(std::to_string(instances.size()) + " " + role + " instances, at most " +
                           std::to_string(most));
  }
  for (int rank = 0; rank < instances.size(); ++rank) {
    const std::string& address = instances[rank].address();
    if (address.empty()) {
      return InvalidArgument(std::string(role) + " " + std::to_string(rank) + " has no address");
    }
    to.push_back(address);
  }
  return OkStatus();
}

}  // namespace

Result<ToldTopology> ReadTopology(const v1::GetTopologyReply& reply) {
  const v1::Topology& topology = reply.committed();
  if (!reply.has_committed() || topology.epoch() == 0) {
    return FailedPrecondition("no topology is committed");
  }
  if (topology.attention().empty()) {
    return InvalidArgument("the topology of epoch " + std::to_string(topology.epoch()) +
                           " has no attention instances");
  }
  ToldTopology told;
  told.members.epoch = topology.epoch();
  JANUS_RETURN_IF_ERROR(
      ReadAddresses("attention", kMaxAttentionInstances, topology.attention(), told.addresses));
  told.members.attention = told.addresses;
  JANUS_RETURN_IF_ERROR(
      ReadAddresses("experts", kMaxExpertInstances, topology.experts(), told.addresses));
  return told;
}

}  // namespace janus::gateway
