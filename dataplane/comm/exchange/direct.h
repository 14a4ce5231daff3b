#pragma once

#include "dataplane/comm/exchange/exchange.h"

namespace janus::dataplane {

// Mode Direct: every attention instance to every expert instance and back. An attention instance
// has one slot of rows per micro-batch, which all expert instances read; an expert instance has one
// slot of contributions per (micro-batch, attention instance). With the gate on attention, an
// expert instance that shares no memory with the sender reads a slot of its own instead, with the
// rows that it needs. `is_relayed`: for the two-phase modes, which need no such slots.
TransportLayout DirectLayout(const ExchangeShape& shape, PeerId self, bool is_relayed = false);

// The number of a round in the order of the epoch, for flags; never 0. Rounds of different
// micro-batches use different slots, so they may share numbers.
inline uint64_t NumberOf(const RoundKey& key) {
  static_assert(sizeof key.layer == 2);
  return (key.step << 16) + key.layer + 1;
}

// Landing memory for one slot of rows, into which a network reads them.
size_t RowLandingBytes(const ExchangeShape& shape);

// The two sides, as declared in exchange.h. The two-phase modes use them too, over a transport that
// bundles what travels between nodes (two_phase.h). The sizes tell where payloads lie: if rows lie
// in a GPU's memory, a message's `bytes` count only its part in host memory, without rows.
std::unique_ptr<AttentionExchange> MakeDirectAttention(const ExchangeShape& shape,
                                                       Transport& transport, DeviceSlots* device);
std::unique_ptr<ExpertExchange> MakeDirectExperts(const ExchangeShape& shape, Transport& transport,
                                                  DeviceSlots* device);

}  // namespace janus::dataplane
