#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/fd.h"
#include "common/wait_policy.h"
#include "dataplane/comm/handshake/exchange_listener.h"
#include "dataplane/comm/handshake/hello.h"

// How the members of an epoch connect and check that they fit. PendingConnections reads HELLOs from
// a ListeningSocket. ExchangeListener is the thread that does this and checks which processes may
// connect. ConnectPeers connects one member with all its peers.
//
// May include: dataplane/comm/wire, common.
namespace janus::dataplane {

class DeviceSlots;

struct ConnectOptions {
  ExchangeIdentity identity;
  // The listeners of all members (ParseExchangeAddresses), by member index. Those of expert
  // instances may be left out if no two of them share a node.
  std::vector<std::string> addresses;
  WaitPolicy policy;
  MonotonicTime deadline;  // for all peers to have connected
  // Called about fifty times a second while peers are missing; false gives up. Null: go on.
  std::function<bool()> keep_waiting;
  // For a member with a GPU: the slots in its memory. Peers on this machine map them, and it maps
  // theirs. Null: no GPU slots. Only transports use it.
  DeviceSlots* device = nullptr;
};

// What an instance offers to its peers.
struct Offer {
  int segment = -1;     // memfd, for pairs of shared memory
  int device = -1;      // GPU memory with our slots, for the same pairs of two roles; -1: none
  int landing = -1;     // GPU memory in which payloads land, for those of one role; -1: none
  std::string address;  // worker address, for pairs of UCX
  // How the pair's messages travel; both sides must find the same.
  std::function<PairTransport(PeerId)> transport;
  // Maps the GPU memory that a peer on this machine offers, which nothing has checked yet. Returns
  // whether it is mapped. Null: maps nothing.
  std::function<bool(PeerId, const Fd&)> map_device;
};

// A peer that sent a HELLO that fits.
struct ConnectedPeer {
  PeerId peer;
  Fd socket;               // open as long as the peer lives
  Fd segment;              // came with the HELLO, unchecked
  std::string address;     // came with the HELLO, unchecked
  bool maps_ours = false;  // whether it has mapped the GPU memory that we offer
};

// The peers with maps_ours.
std::vector<PeerId> PeersThatMapOurs(const std::vector<ConnectedPeer>& peers);

// Connects `layout.self` with every peer of PeersOf(layout). Of a pair, the member with the higher
// number dials; the other one accepts it at its listener, where early peers have waited since the
// epoch was expected. Both send a HELLO, then one byte that says whether they have mapped the
// other's GPU memory. A pair that shares memory meets at the Unix socket of the dialled member: a
// HELLO that comes to its TCP address is refused. Blocks until all peers are connected. Errors:
//   FailedPrecondition  a peer differs (hello.h), or refuses us because we do
//   DeadlineExceeded    names the missing peers, and why the last connection was refused
//   Unavailable         a peer that was connected is gone
//   Internal            a peer sends another byte after its HELLO
//   InvalidArgument     an address;  ResourceExhausted: no descriptor;  Cancelled: `stop`
Result<std::vector<ConnectedPeer>> ConnectPeers(const TransportLayout& layout,
                                                const ConnectOptions& options, const Offer& offer,
                                                ExchangeListener& listener, std::stop_token stop);

}  // namespace janus::dataplane
