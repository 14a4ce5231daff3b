#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/log.h"
#include "common/statistics.h"
#include "common/topology.h"
#include "dataplane/comm/handshake/handshake.h"
#include "dataplane/comm/transport/device_slots.h"

namespace janus::dataplane {

struct ConnectedExchange {
  std::unique_ptr<Transport> transport;
  ExchangeDevice device;  // that UCX was given; without a name where it was given none
};

// Connects the instance `layout.self` with its peers by the transports that the topology asks for:
// between two memory domains, or where it forces TCP, over UCX; else over shared memory. Logs what
// every pair got, and which RDMA device was chosen where one could serve (network_choice.h): near
// to the GPU at the PCI address `gpu`; empty: there is none. With RDMA its memory is read by it, if
// `gpu_direct`. What came of options.device is logged too. Blocks.
// FailedPrecondition: SharedMemory is forced on a pair of two memory domains. Others: those of
// ConnectSharedMemory and ConnectNetwork.
Result<ConnectedExchange> ConnectExchange(const Topology& topology, const TransportLayout& layout,
                                          const ConnectOptions& options, std::string_view gpu,
                                          bool gpu_direct, ExchangeListener& listener,
                                          std::stop_token stop, const Logger& log);

// Of a member with a GPU: the part of its slots in the GPU's memory, or null where the topology
// forbids it or there is no such memory, which is logged: then everything goes through the host's
// memory. `gpu_direct`: as ConnectExchange will have it.
std::unique_ptr<DeviceSlots> MakeDeviceSlots(const Topology& topology,
                                             const TransportLayout& layout,
                                             kernels::Context& context, bool gpu_direct,
                                             const Logger& log);

// How `transport` talks with each peer; `device` as it was connected, or null.
std::vector<PeerLink> LinksOf(const Transport& transport, const DeviceSlots* device);

}  // namespace janus::dataplane
