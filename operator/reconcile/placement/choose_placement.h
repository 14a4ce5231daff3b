#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/topology.h"
#include "operator/reconcile/epochs/compose.h"
#include "operator/reconcile/placement/placement_memory.h"
#include "operator/reconcile/spec/desired.h"

namespace janus::control {

// The placement for a new epoch.
struct ChosenPlacement {
  // Nothing: experts stay where they are, and others are dealt blindly (PlaceKeeping).
  std::optional<Placement> placement;
  // Of PlaceKeeping: whether all experts get equally many replicas again. A searched placement has
  // uneven numbers on purpose.
  bool levels = true;
  std::string why = {};  // of a searched placement, for people
  // Set if it has searched: what placement remembers from now on, so that later rounds of the same
  // proposal get the same placement.
  std::shared_ptr<const PlacementMemory> next;
};

// The same expert instances with the same slots keep the placement of the committed epoch, or take
// the one that the last search found for them (rebalance.h). Other instances get a searched
// placement if rounds were sampled; a service that has lost a member takes no time to search. Pure.
ChosenPlacement ChoosePlacement(const PlanningSide& from, const PlannedService& planned,
                                const PlacementSpec& spec, std::span<const WorkerSeen> workers,
                                bool has_lost);

}  // namespace janus::control
