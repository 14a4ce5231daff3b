#pragma once

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
// the instances in turn, like cards; the s-th slot dealt holds expert s mod E, so every expert has
// its first replica before any has its second. An instance never gets two replicas of one expert:
// such a turn passes to the next instance that has room, and to the next expert when none has; what
// nobody can take stays empty. The same in every layer. Pure.
//
// InvalidArgument: the slots without the spare ones are fewer than the experts (with the numbers
// and what to change), or a bound above.
Result<Placement> PlaceRoundRobin(const PlacementRequest& request);

}  // namespace janus::controllers
