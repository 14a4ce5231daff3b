#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "dataplane/comm/handshake/meeting.h"
#include "dataplane/comm/transport/transport.h"

// May include: dataplane/comm/transport, dataplane/comm/handshake, dataplane/comm/wire, kernels,
// common. No other room but dataplane/worker includes this one, which needs UCX.
namespace janus::dataplane {

struct NetworkOptions {
  ConnectOptions connect;
  // Whether the pair shares memory; both sides must find the same. The other pairs go over UCX.
  std::function<bool(PeerId)> shares_memory;
  std::string transports = "tcp";  // of UCX: UCX_TLS, a list of those that it may use
  std::string devices;             // of UCX: UCX_NET_DEVICES; empty: all
  // Of a member with a GPU: whether peers beyond its domain read its memory, and it theirs, where
  // both ends can (device_slots.h).
  bool reads_devices = false;
};

// Connects one instance with its peers: over shared memory inside its memory domain, over UCX
// across (docs/design/003-exchange-over-a-network.md). Blocks until all are there and every pair
// has carried a message in both directions; pairs with GPUs that may read each other's memory have
// tried that, and what came of it is told by connect.device. Errors: those of ConnectSharedMemory;
// Unavailable: UCX has no such transport or device.
Result<std::unique_ptr<Transport>> ConnectNetwork(const TransportLayout& layout,
                                                  const NetworkOptions& options, ExchangeDoor& door,
                                                  std::stop_token stop);

}  // namespace janus::dataplane
