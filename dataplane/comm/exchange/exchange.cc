#include "dataplane/comm/exchange/exchange.h"

#include <map>

#include "dataplane/comm/exchange/direct.h"
#include "dataplane/comm/exchange/two_phase.h"
#include "dataplane/comm/transport/device_slots.h"

namespace janus::dataplane {

ExchangeShape ShapeOf(const Topology& topology, int hidden, int top_k, DType wire,
                      Compression compression, FixedPointSums sums) {
  ExchangeShape shape;
  shape.hidden = hidden;
  shape.top_k = top_k;
  shape.wire = wire;
  shape.compression = compression;
  shape.sums = std::move(sums);
  shape.micro_batches = topology.micro_batches;
  shape.max_rows = topology.max_rows_per_round;
  shape.m = topology.m();
  shape.n = topology.n();
  shape.layers = topology.placement.layers;
  for (const std::vector<Instance>* role : {&topology.attention, &topology.experts}) {
    std::map<std::string, int> nodes;
    for (const Instance& instance : *role) {
      const int next = static_cast<int>(nodes.size());
      shape.node_of.push_back(nodes.try_emplace(instance.node, next).first->second);
    }
  }
  shape.gate = topology.gate;
  if (topology.gate == GateSide::kExperts) return shape;
  shape.placement = std::make_shared<const Placement>(topology.placement);
  if (ForcesNetwork(topology.transport)) return shape;
  std::map<std::string, int> domains;
  for (const std::vector<Instance>* role : {&topology.attention, &topology.experts}) {
    for (const Instance& instance : *role) {
      const int next = static_cast<int>(domains.size());
      shape.domain_of.push_back(domains.try_emplace(instance.domain, next).first->second);
    }
  }
  return shape;
}

std::string_view WhyThroughHosts(const ExchangeShape& shape) {
  if (shape.sums.on()) return "the exchange adds contributions in host memory";
  if (shape.compression != Compression::kNone) {
    return "the exchange compresses rows on their way to host memory";
  }
  if (shape.gate == GateSide::kAttention) return "attention computes the gate";
  return "";
}

TransportLayout LayoutFor(ExchangeMode mode, const ExchangeShape& shape, PeerId self) {
  if (mode == ExchangeMode::kDirect) return DirectLayout(shape, self);
  return TwoPhaseLayout(mode, shape, self);
}

std::unique_ptr<Transport> RelayOver(ExchangeMode mode, const ExchangeShape& shape,
                                     std::unique_ptr<Transport> transport, DeviceSlots* device) {
  if (mode == ExchangeMode::kDirect) return transport;
  return MakeTwoPhaseTransport(mode, shape, std::move(transport), device);
}

Result<std::unique_ptr<AttentionExchange>> MakeAttentionExchange(const ExchangeShape& shape,
                                                                 Transport& transport,
                                                                 DeviceSlots* device) {
  if (device != nullptr) JANUS_RETURN_IF_ERROR(device->Open(transport));
  return MakeDirectAttention(shape, transport, device);
}

Result<std::unique_ptr<ExpertExchange>> MakeExpertExchange(const ExchangeShape& shape,
                                                           Transport& transport,
                                                           DeviceSlots* device) {
  if (device != nullptr) JANUS_RETURN_IF_ERROR(device->Open(transport));
  return MakeDirectExperts(shape, transport, device);
}

}  // namespace janus::dataplane
