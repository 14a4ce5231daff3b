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

// A worker that was seen: it runs and says that its ports are open.
struct WorkerSeen {
  Role role = Role::kAttention;
  std::string pod_uid;
  int index = 0;        // within the pod
  int incarnation = 0;  // of (pod, index)
  std::string node;     // pod
  std::string domain;   // memory domain
  std::string address;
  std::string exchange_address;
  // Of an attention instance that has been in an epoch: what it has for life.
  std::optional<SequenceRoom> held = {};
  // Of an expert instance that is in the committed epoch: what it has loaded there.
  controllers::HeldExperts experts = {};
};

// The topology of these workers: ranks in the order given, experts placed as the plan says where
// they are not placed already, room for sequences as each holds it or else as the plan says. Pure:
// the same inputs give the same topology, hash included. InvalidArgument: no worker of a role, or
// the placement is refused.
Result<Topology> ComposeTopology(uint64_t epoch, std::span<const WorkerSeen> workers,
                                 const ServicePlan& plan, const ModelDescription& model);

}  // namespace janus::control
