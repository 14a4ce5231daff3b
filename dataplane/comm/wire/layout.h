#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/topology.h"

namespace janus::dataplane {

// A member of an epoch.
struct PeerId {
  Role role = Role::kAttention;
  Rank rank{0};
  friend auto operator<=>(const PeerId&, const PeerId&) = default;
};
std::string ToString(const PeerId& peer);
inline std::ostream& operator<<(std::ostream& out, const PeerId& peer) {
  return out << ToString(peer);
}

// One slot: fixed memory in which a member writes messages for others. Every member computes the
// same table of slots from the topology (comm/exchange/exchange.h), so they negotiate no sizes.
struct SlotSpec {
  PeerId owner;
  int index = 0;     // among the owner's slots, 0..
  size_t bytes = 0;  // room for payload
  std::vector<PeerId> readers;
};

// A slot that one instance of a node reads over a network, into the landing memory of its GPU. The
// other instances of the node, its mates, map that memory and read it in place
// (docs/design/010-gpus-of-other-machines-are-read-by-the-network.md).
struct LandingSpec {
  PeerId owner;   // the instance that reads
  PeerId source;  // owner of the slot
  int slot = 0;
  size_t at = 0;  // in the landing memory
  size_t bytes = 0;
  std::vector<PeerId> mates;  // without the owner
};

struct TransportLayout {
  PeerId self;
  int m = 0;
  int n = 0;
  std::vector<SlotSpec> slots;  // of all members; indices dense per owner
  // The slots in GPU memory (transport/device_slots.h), if they or their readers differ from
  // `slots`; empty: they do not.
  std::vector<SlotSpec> device_slots;
  // By role: bytes of landing memory for peers' payloads that a member needs, beside `landings`.
  std::array<size_t, 2> landing{};
  std::vector<LandingSpec> landings;  // of all members; pieces follow each other per owner
  // By expert rank, its node. Expert instances of one node exchange messages with each other.
  // Empty: no two share a node.
  std::vector<int> expert_nodes;

  const std::vector<SlotSpec>& slots_on_devices() const {
    return device_slots.empty() ? slots : device_slots;
  }
};

// The members that layout.self exchanges messages with: all others, but of the expert instances
// only those of its own node. Attention first, by rank.
std::vector<PeerId> PeersOf(const TransportLayout& layout);

// Members are numbered attention first: rank, then m + rank.
int MemberIndex(const TransportLayout& layout, PeerId peer);
PeerId MemberAt(const TransportLayout& layout, int member);

// The landing memory of a member.
size_t LandingOf(const TransportLayout& layout, PeerId member);

// Identifies the layout of a segment (comm/transport/segment.h); each version of it has a different
// value.
inline constexpr uint64_t kLayoutMagic = 0x35756e616a676573ULL;  // "segjanu5"
// Equal on two members exactly if they computed the same table.
uint64_t LayoutHash(const TransportLayout& layout);

}  // namespace janus::dataplane
