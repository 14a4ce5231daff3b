#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/log.h"
#include "common/statistics.h"
#include "common/status.h"
#include "common/topology.h"
#include "dataplane/comm/exchange/exchange.h"
#include "dataplane/comm/exchange/measure_links.h"
#include "dataplane/comm/handshake/handshake.h"
#include "dataplane/comm/transport/device_slots.h"
#include "dataplane/worker/link_book.h"

namespace janus::dataplane {

struct ConnectedExchange {
  std::unique_ptr<Transport> transport;
  ExchangeDevice device;  // the device that UCX was given; no name: none
};

// Connects the instance `layout.self` with its peers by the transports that the topology asks for:
// over UCX between two memory domains, or if the topology forces TCP or RDMA; otherwise over shared
// memory.
// `gpu`: PCI address of the instance's GPU; empty: it has none. If RDMA may be used, it chooses the
// device nearest to that GPU (network_choice.h), and with `gpu_direct` RDMA reads the GPU's memory.
// It logs the choice, what every pair uses, and how GPU memory is used. Blocks.
// FailedPrecondition: SharedMemory is forced on a pair of two memory domains, or RDMA on a machine
// without a usable device. Others: those of ConnectSharedMemory and ConnectNetwork.
Result<ConnectedExchange> ConnectExchange(const Topology& topology, const TransportLayout& layout,
                                          const ConnectOptions& options, std::string_view gpu,
                                          bool gpu_direct, ExchangeListener& listener,
                                          std::stop_token stop, const Logger& log);

// For a member with a GPU: its slots in GPU memory. Null if the topology forbids them, or, with a
// warning, if they cannot be allocated; then everything goes through host memory. So it does for
// the reasons of WhyThroughHosts (exchange.h), which are logged. `gpu_direct`: as for
// ConnectExchange.
std::unique_ptr<DeviceSlots> MakeDeviceSlots(const Topology& topology,
                                             const TransportLayout& layout,
                                             const ExchangeShape& shape, kernels::Context& context,
                                             bool gpu_direct, const Logger& log);

// Measures the links between the topology's nodes that need a network, as far as `links` does not
// know them, and notes them there. A link that could not be measured is logged, and fails nothing.
// Before any step; blocks for some milliseconds, MeasureOptions::longest at most.
std::vector<MeasuredPeer> MeasureNodeLinks(const Topology& topology, const ExchangeShape& shape,
                                           Transport& transport, LinkBook& links,
                                           const Clock& clock, const std::stop_token& stop,
                                           const Logger& log);
// Adds what was measured to the links of its peers.
void NoteMeasured(const std::vector<MeasuredPeer>& measured, std::vector<PeerLink>& links);

// How `transport` communicates with each peer. `device`: as it was connected, or null.
std::vector<PeerLink> LinksOf(const Transport& transport, const DeviceSlots* device);

}  // namespace janus::dataplane
