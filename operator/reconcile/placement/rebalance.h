#pragma once

#include <memory>
#include <optional>

#include "operator/reconcile/pass/observed.h"
#include "operator/reconcile/placement/placement_memory.h"
#include "operator/reconcile/rollout/rollout.h"
#include "operator/records/tick_record.h"

namespace janus::control {

struct TakenRounds {
  std::shared_ptr<const PlacementMemory> next;
  PlacementRecord record;  // for people
};

// Placement follows the traffic (docs/placement.md, "On a running service"). Collects the rounds
// that the members of the front side have sampled. Once in placement.rebalanceIntervalSeconds it
// searches them for a better placement; the first time after kFirstSearch at the latest, since the
// first placement was made without any. A placement that is worth its loads becomes
// PlacementMemory::placed, and the next epoch takes it. Nothing: nothing new. Pure.
//
// Nothing moves while the service is paused, rolls out, has lost a member, or has an epoch under
// way.
std::optional<TakenRounds> Rebalance(const ServiceObserved& seen, const Rollout& rollout);

inline constexpr std::chrono::minutes kFirstSearch{5};

}  // namespace janus::control
