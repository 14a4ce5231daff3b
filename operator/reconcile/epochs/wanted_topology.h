#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "operator/reconcile/epochs/epoch_driver.h"
#include "operator/reconcile/placement/placement_memory.h"
#include "operator/reconcile/pods/pods.h"
#include "operator/reconcile/spec/desired.h"

namespace janus::control {

// What should serve on a side.
struct WantedTopology {
  // Nothing: wait, or nothing can serve.
  std::shared_ptr<const EpochProposal> proposal;
  // The plan for the existing instances, if they are fewer than wanted.
  std::optional<PlannedService> planned;
  Cause awaited;  // why it waits
  // What placement remembers from now on, if it has searched; null: as before.
  std::shared_ptr<const PlacementMemory> placement;
  // Which exchange mode the proposal has, on which side its gate is, and why, for people; empty:
  // there is none.
  std::string exchange_why;
  std::optional<MonotonicTime> again;
};

// Chooses from the pods that can serve (PodPlan::members, by role). It waits for pods that are
// starting or restarting, since one epoch is better than two. A service that has lost a member
// waits only for restarts. Pure.
WantedTopology TopologyWanted(const PlanningSide& from, const Desired& desired,
                              const std::array<PodPlan, 2>& pods);

}  // namespace janus::control
