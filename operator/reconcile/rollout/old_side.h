#pragma once

#include <array>

#include "operator/reconcile/certificates/certified.h"
#include "operator/reconcile/pass/plan_builder.h"
#include "operator/reconcile/pods/plan_pods.h"
#include "operator/reconcile/rollout/rollout.h"

namespace janus::control {

// The side of a rollout whose model goes, as long as it is there (sides.h).

struct OldSide {
  Desired desired;  // losses are mended by the spec that it was whole under
  std::array<PodPlan, 2> pods;
};

// What is wanted of it. It mends losses only until the new side has committed an epoch. Pure, as
// all here.
OldSide PlanOldSide(const ServiceObserved& seen, const ReconcilerOptions& options,
                    const Rollout& rollout, PlanBuilder& out);

// Its pods, epochs and end. Empty and ended: its record goes. True: a write of its record is
// planned.
bool PlanOldActions(const ServiceObserved& seen, const ReconcilerOptions& options,
                    const Rollout& rollout, const OldSide& old, const Certified& certified,
                    PlanBuilder& out);

// The committed epoch of the old side serves all that it did.
bool OldSideServes(const ServiceObserved& seen, const Side& old);
// What condition Progressing says meanwhile.
Cause ReplacingCause(const Rollout& rollout);
// Whether the new side may propose an epoch now: not while the old one's record is about to change,
// nor while a later leader may still write it.
bool MayFrontPropose(const Side& old);

// Whether the members know what is committed. A pod is labelled when they do, so what another
// process told them before this one began is not forgotten.
bool ServesCommitted(const Side& side);

// A record that is not needed any more: what it proposes is aborted first.
void PlanDrop(const ServiceObserved& seen, const MoEService& service, const TopologySeen& topology,
              PlanBuilder& out);

// The order to the members of an ended or sleeping epoch, and the time until which answers may end.
MemberOrder ReleaseOrder(const ServiceObserved& seen, const Side& side, int64_t epoch,
                         std::vector<TopologyInstance> members);
MonotonicTime EndOfDrain(const ServiceObserved& seen, const Side& side, int drain_seconds);

}  // namespace janus::control
