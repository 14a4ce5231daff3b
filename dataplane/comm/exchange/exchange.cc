#include "dataplane/comm/exchange/exchange.h"

#include "dataplane/comm/exchange/direct.h"
#include "dataplane/comm/transport/device_slots.h"

namespace janus::dataplane {
namespace {

Status NotBuilt(ExchangeMode mode) {
  return Unimplemented("exchange mode " + std::string(ToString(mode)) +
                       " is not supported by this version; use Direct");
}

}  // namespace

ExchangeShape ShapeOf(const Topology& topology, int hidden, int top_k, DType wire) {
  ExchangeShape shape;
  shape.hidden = hidden;
  shape.top_k = top_k;
  shape.wire = wire;
  shape.micro_batches = topology.micro_batches;
  shape.max_rows = topology.max_rows_per_round;
  shape.m = topology.m();
  shape.n = topology.n();
  return shape;
}

Result<TransportLayout> LayoutFor(ExchangeMode mode, const ExchangeShape& shape, PeerId self) {
  if (mode != ExchangeMode::kDirect) return NotBuilt(mode);
  return DirectLayout(shape, self);
}

Result<std::unique_ptr<AttentionExchange>> MakeAttentionExchange(ExchangeMode mode,
                                                                 const ExchangeShape& shape,
                                                                 Transport& transport,
                                                                 DeviceSlots* device) {
  if (mode != ExchangeMode::kDirect) return NotBuilt(mode);
  if (device != nullptr) JANUS_RETURN_IF_ERROR(device->Open(transport));
  return MakeDirectAttention(shape, transport, device);
}

Result<std::unique_ptr<ExpertExchange>> MakeExpertExchange(ExchangeMode mode,
                                                           const ExchangeShape& shape,
                                                           Transport& transport,
                                                           DeviceSlots* device) {
  if (mode != ExchangeMode::kDirect) return NotBuilt(mode);
  if (device != nullptr) JANUS_RETURN_IF_ERROR(device->Open(transport));
  return MakeDirectExperts(shape, transport, device);
}

}  // namespace janus::dataplane
