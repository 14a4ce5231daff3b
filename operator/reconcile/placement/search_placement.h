#pragma once

#include <optional>
#include <vector>

#include "common/status.h"
#include "common/topology.h"
#include "operator/reconcile/capacity/service_planner.h"
#include "operator/reconcile/placement/placement_memory.h"

namespace janus::control {

struct PlacementFound {
  Placement placement;  // `current`, if no other is worth its loads
  PlacementSearch search;
};

// Searches the remembered rounds for a placement with fewer experts to read on the busiest
// instance (controllers/replicas/place.h). `current` has the slots that the result has. A replica
// that must be loaded has to save more reads until the next search, `interval` later, than its load
// costs. `pods`: of the expert instances by rank (PlacementRequest). Unavailable: too few rounds.
// Takes about a second of CPU time for a model as large as DeepSeek-V3. Pure.
janus::Result<PlacementFound> SearchPlacement(const PlacementMemory& memory,
                                              const PlannedService& planned, bool is_survivable,
                                              const Placement& current,
                                              const std::vector<int>& pods, Seconds interval);

// A load of a replica, in reads of an expert from the device's memory: it comes from the page cache
// or a disk, and passes the bus to the device.
inline constexpr double kReadsOfALoad = 50;

}  // namespace janus::control
