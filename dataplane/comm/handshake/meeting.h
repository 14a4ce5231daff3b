#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/fd.h"
#include "common/wait_policy.h"
#include "dataplane/comm/handshake/exchange_door.h"
#include "dataplane/comm/handshake/hello.h"

// How the members of an epoch find each other and check that they fit. ExchangeListener is the
// socket, Callers the connections that have not said HELLO yet, ExchangeDoor the thread that reads
// and judges them, MeetPeers what a member does to meet all others.
//
// May include: dataplane/comm/wire, common.
namespace janus::dataplane {

class DeviceSlots;

struct ConnectOptions {
  ExchangeIdentity identity;
  std::vector<std::string> attention_addresses;  // listener of every attention instance, by rank
  WaitPolicy policy;
  MonotonicTime deadline;  // for all peers to have connected
  // Asked about fifty times a second while peers are awaited; false gives up. Null: go on.
  std::function<bool()> keep_waiting;
  // Of a member with a GPU: shown to the peers it shares memory with, whose own it maps. Null:
  // none.
  DeviceSlots* device = nullptr;
};

// What an instance offers to its peers.
struct Offer {
  int segment = -1;     // memfd, for pairs of shared memory
  int device = -1;      // of a GPU's memory, for the same; -1: none
  std::string address;  // worker address, for pairs of UCX
  // How the pair's messages travel; both sides must find the same.
  std::function<PairTransport(PeerId)> transport;
  // Maps what a peer of shared memory offers of a GPU's, unjudged; whether it is mapped. Null:
  // nothing is.
  std::function<bool(PeerId, const Fd&)> map_device;
};

// A peer that has said the right HELLO.
struct Met {
  PeerId peer;
  Fd socket;               // open as long as the peer lives
  Fd segment;              // what came with it, unjudged
  std::string address;     // likewise
  bool maps_ours = false;  // whether it has mapped what we offer of a GPU's memory
};

// Those that do.
std::vector<PeerId> WhoMapsOurs(const std::vector<Met>& met);

// Meets every peer that `layout.self` talks with: all others, but experts not each other; then each
// of a pair says, by a byte behind its HELLO, whether it has mapped the other's GPU memory. The
// member with the higher number dials, the other one finds it at its door, which keeps strangers
// away; peers that were there before, when the epoch was expected already, have waited. Blocks.
// FailedPrecondition: a peer differs (hello.h), or refuses us for that. DeadlineExceeded names the
// peers that did not come, and whoever was refused meanwhile. Unavailable: a peer that had come is
// gone. Cancelled: `stop` was requested. InvalidArgument: an address. ResourceExhausted: no
// descriptor. Internal: a peer that had come says neither.
Result<std::vector<Met>> MeetPeers(const TransportLayout& layout, const ConnectOptions& options,
                                   const Offer& offer, ExchangeDoor& door, std::stop_token stop);

}  // namespace janus::dataplane
