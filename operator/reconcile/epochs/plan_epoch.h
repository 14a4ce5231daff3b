#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "operator/api/moeservice.h"
#include "operator/reconcile/epochs/epoch_driver.h"
#include "operator/reconcile/pass/plan_builder.h"
#include "operator/reconcile/rollout/sides.h"

namespace janus::control {

// What the epochs of one topology should become.
struct EpochWish {
  // What should serve; nothing: unknown, or nothing should.
  std::shared_ptr<const EpochProposal> wanted;
  // Name of the MoETopology to create if it is missing; empty: create none.
  std::string name;
  // Create it before `wanted` is known: it marks that there are two sides.
  bool makes_record = false;
  // Why the committed or proposed epoch is no longer wanted, for people. Empty: it is wanted.
  std::string ends;
  int64_t above = 0;        // lastEpoch of the other topology
  bool may_propose = true;  // false: the other topology is about to change
  int pool = 1;             // of a topology to create
};

// Adds the next step (next_step.h), if any, as one action. True: it writes the record, which may
// change epoch numbers. Pure.
bool PlanEpoch(const ServiceObserved& seen, const MoEService& service, const TopologySeen* topology,
               const EpochWish& wish, PlanBuilder& out);

// Records in the status which members serve the committed epoch, and since when. It is written only
// when a member starts or stops: once or twice in a quiet epoch. Pure.
void PlanMemberStatus(const ServiceObserved& seen, const Side& side, PlanBuilder& out);

}  // namespace janus::control
