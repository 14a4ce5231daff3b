#include "dataplane/comm/wire/layout.h"

#include <algorithm>

#include "common/fingerprint.h"
#include "dataplane/comm/wire/wire.h"

namespace janus::dataplane {

std::string ToString(const PeerId& peer) {
  return std::string(ToString(peer.role)) + " " + std::to_string(peer.rank.value);
}

int MemberIndex(const TransportLayout& layout, PeerId peer) {
  return peer.role == Role::kAttention ? peer.rank.value : layout.m + peer.rank.value;
}

PeerId MemberAt(const TransportLayout& layout, int member) {
  if (member < layout.m) return {Role::kAttention, Rank{member}};
  return {Role::kExperts, Rank{member - layout.m}};
}

std::vector<PeerId> PeersOf(const TransportLayout& layout) {
  const auto node_of = [&](PeerId expert) {
    return layout.expert_nodes[static_cast<size_t>(expert.rank.value)];
  };
  std::vector<PeerId> peers;
  for (int member = 0; member < layout.m + layout.n; ++member) {
    const PeerId peer = MemberAt(layout, member);
    if (peer == layout.self) continue;
    const bool both_experts = peer.role == Role::kExperts && layout.self.role == Role::kExperts;
    if (both_experts && (layout.expert_nodes.empty() || node_of(peer) != node_of(layout.self))) {
      continue;
    }
    peers.push_back(peer);
  }
  return peers;
}

size_t LandingOf(const TransportLayout& layout, PeerId member) {
  size_t bytes = layout.landing[static_cast<size_t>(member.role)];
  for (const LandingSpec& piece : layout.landings) {
    if (piece.owner == member) bytes = std::max(bytes, piece.at + piece.bytes);
  }
  return bytes;
}

uint64_t LayoutHash(const TransportLayout& layout) {
  Fingerprint hash;
  hash.Mix(kLayoutMagic).Mix(kProtocolVersion);
  hash.Mix(static_cast<uint64_t>(layout.m)).Mix(static_cast<uint64_t>(layout.n));
  for (const int node : layout.expert_nodes) hash.Mix(static_cast<uint64_t>(node));
  const auto mix = [&](PeerId member) {
    hash.Mix(static_cast<uint64_t>(MemberIndex(layout, member)));
  };
  for (const std::vector<SlotSpec>* slots : {&layout.slots, &layout.device_slots}) {
    for (const SlotSpec& slot : *slots) {
      mix(slot.owner);
      hash.Mix(static_cast<uint64_t>(slot.index)).Mix(uint64_t{slot.bytes});
      for (const PeerId& reader : slot.readers) mix(reader);
    }
  }
  for (const LandingSpec& piece : layout.landings) {
    mix(piece.owner);
    mix(piece.source);
    hash.Mix(static_cast<uint64_t>(piece.slot)).Mix(uint64_t{piece.at}).Mix(uint64_t{piece.bytes});
    for (const PeerId& mate : piece.mates) mix(mate);
  }
  return hash.value();
}

}  // namespace janus::dataplane
