#pragma once

#include <array>
#include <memory>
#include <optional>

#include "operator/reconcile/epochs/epoch_driver.h"
#include "operator/reconcile/pods/pods.h"
#include "operator/reconcile/spec/desired.h"

namespace janus::control {

// What should serve on a side.
struct WantedTopology {
  // Nothing: it is better to wait, or there is nothing to serve with.
  std::shared_ptr<const EpochProposal> proposal;
  // The plan for as many instances as there are, if those are not all that are wanted.
  std::optional<PlannedService> planned;
  Cause awaited;  // what it waits for
  std::optional<MonotonicTime> again;
};

// From the pods that can serve (PodPlan::members, by role). Not proposed before a pod that comes
// about now has come, or one that restarts is back: one epoch is better than two. A service that
// has lost a member waits for restarts alone. Pure.
WantedTopology TopologyWanted(const PlanningSide& from, const Desired& desired,
                              const std::array<PodPlan, 2>& pods);

}  // namespace janus::control
