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

// What is wanted of one topology's epochs.
struct EpochWish {
  // What should serve; nothing: it is not known yet, or nothing should.
  std::shared_ptr<const EpochProposal> wanted;
  // Of the MoETopology to make if there is none; empty: make none.
  std::string name;
  // Make it before anything is wanted: it says that there are two sides.
  bool makes_record = false;
  // Why what is committed or proposed is not wanted any more, for people. Empty: it is.
  std::string ends;
  int64_t above = 0;        // of the topology beside this one: its lastEpoch
  bool may_propose = true;  // false: that one is about to change
};

// Adds the next step from one epoch to another (next_step.h), if there is one, as one action. True:
// it is a write of the record, after which numbers of epochs may be others. Pure.
bool PlanEpoch(const ServiceObserved& seen, const MoEService& service, const TopologySeen* topology,
               const EpochWish& wish, PlanBuilder& out);

// Notes in the record's status which members have said that they serve the committed epoch, and
// since when. Written when one comes or goes: once or twice in an epoch to which nothing happens.
// Pure.
void PlanMemberStatus(const ServiceObserved& seen, const Side& side, PlanBuilder& out);

}  // namespace janus::control
