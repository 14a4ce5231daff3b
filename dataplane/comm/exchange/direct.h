#pragma once

#include "dataplane/comm/exchange/exchange.h"

namespace janus::dataplane {

// Mode Direct: every attention instance to every expert instance and back. An attention instance
// has one slot of rows per micro-batch, which all expert instances read; an expert instance has one
// slot of contributions per (micro-batch, attention instance).
TransportLayout DirectLayout(const ExchangeShape& shape, PeerId self);

// As exchange.h has them. What lies in a GPU's memory is told by the sizes: a message's `bytes` are
// those in the host's, without rows.
std::unique_ptr<AttentionExchange> MakeDirectAttention(const ExchangeShape& shape,
                                                       Transport& transport, DeviceSlots* device);
std::unique_ptr<ExpertExchange> MakeDirectExperts(const ExchangeShape& shape, Transport& transport,
                                                  DeviceSlots* device);

}  // namespace janus::dataplane
