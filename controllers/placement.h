#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/status.h"
#include "common/topology.h"

namespace janus::controllers {

// What a placement is made for. Bounds: layers x slots <= kMaxPlacementEntries, experts < 65,535.
struct PlacementRequest {
  int layers = 0;
  int experts = 0;                     // E, per layer
  std::vector<int> slots_of_instance;  // [n], spare slots included; may be uneven
  int spare_slots = 0;                 // of each instance, its last ones: left empty
};

// What one MoETopology object can carry twice (committed and proposed).
inline constexpr int kMaxPlacementEntries = 196'608;

// The first placement of a service, before anything is known of the routing. Slots are dealt to
// the instances in turn, like cards: first every expert once, then second replicas, until the slots
// are full. Where there are not slots for all second replicas, each layer begins with other
// experts, so that over the layers all experts have as many replicas to choose from. An instance
// never gets two replicas of one expert: such a turn passes to the next instance that has room, and
// to the next expert when none has; what nobody can take stays empty. First replicas are the same
// in every layer. Pure.
//
// InvalidArgument: the slots without the spare ones are fewer than the experts (with the numbers
// and what to change), or a bound above.
Result<Placement> PlaceRoundRobin(const PlacementRequest& request);

// The experts that an instance has, by layer; empty: it has none yet.
using HeldExperts = std::vector<std::vector<uint16_t>>;

// The placement after a change of instances or slots: each keeps what it has as far as there is
// room, and gets what else is missing, so that the weights that are loaded are those that nobody
// there has. `held` [n]. Of what does not fit an expert goes first of which there are most
// replicas. Experts without a replica come before second replicas; the counts of two experts differ
// by one at most, unless an instance would get an expert twice, for which replicas move from the
// most to the least. Where nobody has anything it is PlaceRoundRobin; the same instances with the
// same slots have the same placement. Pure. Errors: as PlaceRoundRobin.
Result<Placement> PlaceKeeping(const PlacementRequest& request, std::span<const HeldExperts> held);

}  // namespace janus::controllers
