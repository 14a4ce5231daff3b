#pragma once

#include <array>
#include <optional>
#include <string>

#include "common/clock.h"
#include "operator/api/moeservice.h"
#include "operator/reconcile/capacity/service_planner.h"
#include "operator/reconcile/pass/observed.h"
#include "operator/reconcile/pass/settings.h"
#include "operator/reconcile/pods/pods.h"
#include "operator/reconcile/rollout/sides.h"
#include "operator/reconcile/status/cause.h"
#include "operator/reconcile/status/status.h"

namespace janus::control {

// The goal for one role.
struct RoleDesired {
  RoleWanted wanted;
  // In mode External: the wanted count, asleep or not.
  int external_count = 0;
  Cause limit;  // why the count differs from the request
};

// The goal for a service, or for one side of it.
struct Desired {
  MoEService service;  // with the spec in force: the newest or an earlier one
  PinnedImage pinned;
  Cause invalid;         // the newest spec can never be carried out
  bool is_held = false;  // `service` has the last spec that served, not the invalid one
  Cause capacity;        // not enough resources
  Cause awaited;         // what the plan or the next epoch waits for
  Cause held_tls;        // security.tls of the spec differs from the pods'
  // The spec waits for the old side's end, for resources or for its model; the previous one is in
  // force.
  Cause held_back;
  Cause fetching;  // the newest spec's model is not there yet (model/plan_fetch.h)
  std::optional<FetchProgress> progress;  // of its download, if it is known
  std::optional<PlannedService> planned;  // nothing: unknown or impossible
  std::array<RoleDesired, 2> roles;       // attention first
  std::string ends;                       // why to end the committed epoch now; empty: keep it
  bool is_frozen = false;                 // create and delete no pods
  WorkersToAsk workers;                   // that a planner may ask
  // What `service` asked of scaling before counts were filled in: decisions follow it.
  std::array<std::optional<RoleScaling>, 2> scaling_of_spec;
  int32_t micro_batches_of_spec = 0;  // or, if the memory holds no more, the most that it holds
  std::optional<MonotonicTime> again;

  RoleDesired& Of(Role role) { return roles[role == Role::kExperts]; }
  const RoleDesired& Of(Role role) const { return roles[role == Role::kExperts]; }
  // The newest spec or an earlier one can be carried out.
  bool acts() const { return !invalid || is_held; }
  bool wants_pods() const {
    return !service.spec.suspend && roles[0].wanted.instances + roles[1].wanted.instances > 0;
  }
};

// Input for planning a side.
struct PlanningSide {
  const ServiceObserved& seen;
  const ReconcilerOptions& options;
  const Sides& sides;
  const Side& side;
  const ModelKnowledge& models;
};

// Counts, revisions and the plan for `service`, which has passed CheckSpec if `invalid` is empty.
// Counts that do not need the model come first, so that pods start while it is read. On a cluster
// only pods can tell about the model. Pure. `held_back`: why `service` has an earlier spec than the
// newest.
Desired PlanSpec(const PlanningSide& from, MoEService service, const PinnedImage& pinned,
                 const Cause& invalid, const Cause& held_back = {});

// The planner's plan for `service`, with the KV cache size that an instance already has. Pure.
janus::Result<PlannedService> PlanKeeping(const PlanningSide& from, const Desired& desired,
                                          const MoEService& service);

// The workers of a side with open ports, oldest first. Pure.
WorkersToAsk WorkersOf(const PlanningSide& from, const Desired& desired);

// True if the pod is alive and in the committed epoch. Pure.
bool IsServing(const Side& side, const PodSeen& pod);
// How many of its instances are in that epoch: the others were left out. Pure.
int ServingInstances(const Side& side, const PodSeen& pod);

// True if pods with the wanted number of instances serve, with the newest revision, and all know of
// it. Pure.
bool IsWhole(const Side& side, const Desired& desired);

}  // namespace janus::control
