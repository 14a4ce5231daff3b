#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "dataplane/comm/handshake/handshake.h"
#include "dataplane/comm/transport/transport.h"

// May include: dataplane/comm/transport, dataplane/comm/handshake, dataplane/comm/wire, kernels,
// common. Of the other folders only dataplane/worker includes this one, because it needs UCX.
namespace janus::dataplane {

struct NetworkOptions {
  ConnectOptions connect;
  // Whether the pair shares memory; both sides must find the same. The other pairs go over UCX.
  std::function<bool(PeerId)> shares_memory;
  std::string transports = "tcp";  // UCX_TLS: list of transports that UCX may use
  std::string devices;             // UCX_NET_DEVICES; empty: all
  bool checks_datagrams = true;    // UcpWorkerOptions::checks_datagrams
  // With a GPU: whether it and peers outside its memory domain read each other's GPU memory, if
  // both ends can (device_slots.h).
  bool reads_devices = false;
};

// Connects one instance with its peers: over shared memory inside its memory domain, over UCX
// outside it (docs/design/003-exchange-over-a-network.md). Blocks until all peers are connected and
// every pair has carried a message in both directions. Pairs that may read each other's GPU memory
// have tried it by then; connect.device has the result. Errors: those of ConnectSharedMemory;
// Unavailable: UCX has no such transport or device.
Result<std::unique_ptr<Transport>> ConnectNetwork(const TransportLayout& layout,
                                                  const NetworkOptions& options,
                                                  ExchangeListener& listener, std::stop_token stop);

}  // namespace janus::dataplane
