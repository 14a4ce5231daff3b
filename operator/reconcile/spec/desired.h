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

// What one role shall have.
struct RoleDesired {
  RoleWanted wanted;
  // In mode External: how many there shall be, asleep or not.
  int external_count = 0;
  Cause limit;  // why it is not as many as asked for
};

// What a service, or one side of it, shall be.
struct Desired {
  MoEService service;  // by which it is kept: the newest spec, or one before
  PinnedImage pinned;
  Cause invalid;         // the newest spec can never be carried out
  bool is_held = false;  // `service` has the last spec that served, not the one that is invalid
  Cause capacity;        // there is no room
  Cause awaited;         // what the plan, or the next epoch, waits for
  Cause held_tls;        // security.tls of the spec is another than the pods'
  // The spec waits for the old side's end, or for room, and the one before is kept.
  Cause held_back;
  std::optional<PlannedService> planned;  // nothing: not known, or not to be carried out
  std::array<RoleDesired, 2> roles;       // attention first
  std::string ends;        // why the committed epoch is to be ended now; empty: it is not
  bool is_frozen = false;  // no pod comes or goes
  WorkersToAsk workers;    // that a planner could ask
  std::optional<MonotonicTime> again;

  RoleDesired& Of(Role role) { return roles[role == Role::kExperts]; }
  const RoleDesired& Of(Role role) const { return roles[role == Role::kExperts]; }
  // The spec, or one before, can be carried out.
  bool acts() const { return !invalid || is_held; }
  bool wants_pods() const {
    return !service.spec.suspend && roles[0].wanted.pods + roles[1].wanted.pods > 0;
  }
};

// What a side is planned from.
struct PlanningSide {
  const ServiceObserved& seen;
  const ReconcilerOptions& options;
  const Sides& sides;
  const Side& side;
  const ModelKnowledge& models;
};

// Counts, revisions and the plan for `service`, which has passed CheckSpec if `invalid` is empty.
// What of the counts is known without the model comes first: pods start while it is read, and on a
// cluster there is no other way, as the pods tell of it. Pure.
// `held_back`: why `service` has an earlier spec than the newest, if it has.
Desired PlanSpec(const PlanningSide& from, MoEService service, const PinnedImage& pinned,
                 const Cause& invalid, const Cause& held_back = {});

// The plan of the planner for `service`, with the KV cache that an instance has already. Pure.
janus::Result<PlannedService> PlanKeeping(const PlanningSide& from, const Desired& desired,
                                          const MoEService& service);

// The workers of a side whose ports are open, the oldest first. Pure.
WorkersToAsk WorkersOf(const PlanningSide& from, const Desired& desired);

// The pod is of the committed epoch, and lives. Pure.
bool IsServing(const Side& side, const PodSeen& pod);

// As many as are wanted serve, of the newest revision, and have been told. Pure.
bool IsWhole(const Side& side, const Desired& desired);

}  // namespace janus::control
