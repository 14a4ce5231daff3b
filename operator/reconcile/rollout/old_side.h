#pragma once

#include <array>

#include "operator/reconcile/certificates/certified.h"
#include "operator/reconcile/pass/plan_builder.h"
#include "operator/reconcile/pods/plan_pods.h"
#include "operator/reconcile/rollout/rollout.h"

namespace janus::control {

// The side of a rollout with the old model, while it exists (sides.h).

struct OldSide {
  Desired desired;  // lost pods are replaced under its last spec that ran whole
  std::array<PodPlan, 2> pods;
};

// Plans the old side. It replaces lost pods only until the new side has committed an epoch. Pure,
// like all functions here.
OldSide PlanOldSide(const ServiceObserved& seen, const ReconcilerOptions& options,
                    const Rollout& rollout, PlanBuilder& out);

// Plans its pods, epochs and end. Once it is empty and ended, its record is deleted. True: the plan
// writes its record.
bool PlanOldActions(const ServiceObserved& seen, const ReconcilerOptions& options,
                    const Rollout& rollout, const OldSide& old, const Certified& certified,
                    PlanBuilder& out);

// True if the old side's committed epoch still serves.
bool OldSideServes(const ServiceObserved& seen, const Side& old);
// Text of condition Progressing during the rollout.
Cause ReplacingCause(const Rollout& rollout);
// True if the new side may propose an epoch now: the old record is not about to change, and no
// other leader can still write it.
bool MayFrontPropose(const Side& old);

// True if the members know of the committed epoch. Their pods' labels show that too, so it is known
// even if an earlier process told them.
bool ServesCommitted(const Side& side);

// Deletes a record that is no longer needed; first it aborts a proposed epoch.
void PlanDrop(const ServiceObserved& seen, const MoEService& service, const TopologySeen& topology,
              PlanBuilder& out);

// The order to release members of an ended or sleeping epoch, and the deadline for their answers.
MemberOrder ReleaseOrder(const ServiceObserved& seen, const Side& side, int64_t epoch,
                         std::vector<TopologyInstance> members);
MonotonicTime EndOfDrain(const ServiceObserved& seen, const Side& side, int drain_seconds);
// The same for an ended epoch of which `left` members live: answers of an epoch that has lost a
// member cannot finish, and a service that sleeps waits for none, so then it is now.
MonotonicTime EndOfAnswers(const ServiceObserved& seen, const Side& side, const Desired& desired,
                           size_t left);

}  // namespace janus::control
