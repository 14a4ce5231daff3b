#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/topology.h"

namespace janus::controllers {

// A request for a placement. Bounds: layers x slots <= kMaxPlacementEntries, experts < 65,535.
struct PlacementRequest {
  int layers = 0;
  int experts = 0;                     // E, per layer
  std::vector<int> slots_of_instance;  // [n], spare slots included; may be uneven
  int spare_slots = 0;                 // of each instance, its last ones; they stay empty
  // [n]: instances with the same number are lost together. Empty: each instance is a pod.
  std::vector<int> pod_of_instance = {};
  // Of PlaceKeeping: give all experts equally many replicas again, even if that loads more.
  bool levels = true;
};

// A MoETopology object must hold two placements of this size (committed and proposed).
inline constexpr int kMaxPlacementEntries = 196'608;

// The first placement of a service, before anything is known of the routing. Slots are dealt to
// the instances in turn, like cards: first every expert once, then second replicas, until the slots
// are full. Where there are not slots for all second replicas, each layer begins with other
// experts, so that over the layers all experts have as many replicas to choose from. An instance
// never gets two replicas of one expert: such a turn passes to the next instance that has room, and
// to the next expert when none has; what no instance can take stays empty. First replicas are the
// same in every layer. A replica goes to a pod without that expert, if one has room. Pure.
//
// InvalidArgument: there are fewer slots (without spare ones) than experts, with the numbers and
// what to change; or a bound above is exceeded.
Result<Placement> PlaceRoundRobin(const PlacementRequest& request);

// Numbers for the pods of instances, by first appearance. `names` [n].
std::vector<int> PodNumbers(std::span<const std::string> names);

// The experts that an instance has, by layer; empty: none yet.
using HeldExperts = std::vector<std::vector<uint16_t>>;

// The placement after a change of instances or slots. Each instance keeps its experts as far as it
// has room. It then loads missing experts that it does not have yet. `held` [n]. If an instance
// must drop an expert, it drops the one with most replicas. Every expert gets a first replica
// before any gets a second; a replica is added in a pod without the expert, if one has room. With
// `levels`, replica counts of two experts differ by at most one,
// unless an instance would get an expert twice; to reach this, replicas of the most frequent expert
// are replaced by the least frequent. If no instance has anything, the result is PlaceRoundRobin's.
// The same instances with the same slots keep their placement. Pure. Errors: as in PlaceRoundRobin.
Result<Placement> PlaceKeeping(const PlacementRequest& request, std::span<const HeldExperts> held);

}  // namespace janus::controllers
