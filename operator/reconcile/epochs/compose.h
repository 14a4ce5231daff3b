#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/model/description.h"
#include "common/status.h"
#include "common/topology.h"
#include "controllers/placement.h"
#include "operator/reconcile/capacity/service_plan.h"

namespace janus::control {

// A running worker with open ports.
struct WorkerSeen {
  Role role = Role::kAttention;
  std::string pod_uid;
  int index = 0;        // within the pod
  int incarnation = 0;  // of (pod, index)
  std::string node;     // pod
  std::string domain;   // memory domain
  std::string address;
  std::string exchange_address;
  // For an attention instance that was in an epoch: its sequence room, fixed for its lifetime.
  std::optional<SequenceRoom> held = {};
  // For an expert instance in the committed epoch: the experts it has loaded.
  controllers::HeldExperts experts = {};
};

// The topology of these workers. Ranks follow the given order. `placement`: of the expert instances
// in that order; null: experts stay where they are loaded, and others are dealt (PlaceKeeping;
// `levels` is explained there). The room for sequences is what an instance holds, or else the
// plan's. Pure: the same input gives the same topology and hash. InvalidArgument: a role has no
// worker, or the placement is refused.
Result<Topology> ComposeTopology(uint64_t epoch, std::span<const WorkerSeen> workers,
                                 const ServicePlan& plan, const ModelDescription& model,
                                 const Placement* placement = nullptr, bool levels = true);

}  // namespace janus::control
