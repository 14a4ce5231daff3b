#pragma once

#include <array>
#include <set>
#include <string>
#include <vector>

#include "operator/reconcile/pass/plan_builder.h"
#include "operator/reconcile/pass/settings.h"
#include "operator/reconcile/rollout/sides.h"
#include "operator/reconcile/spec/desired.h"

namespace janus::control {

// The pods of one role on one side: how many to create, which should serve, which to delete
// (PlanPods). Creates none while `makes` is false. `out` gets the time of the next check. Pure,
// like all functions here.
PodPlan PlanRolePods(const ServiceObserved& seen, const Side& side, Role role,
                     const Desired& desired, bool makes, PlanBuilder& out);

// Pods to create for one role.
struct PodOrder {
  Role role = Role::kAttention;
  std::vector<int> sizes;  // instances of each
  std::string revision;
  std::string image;
  const MoEService* service = nullptr;  // for which they are created
  int pool = 1;
};

// Creates pods. First it reserves their names in the service's status. Names that were reserved but
// not used, because a creation was refused, are used first.
void PlanNewPods(const ServiceObserved& seen, const std::vector<PodOrder>& orders,
                 const PinnedImage& pinned, const ReconcilerOptions& options, PlanBuilder& out);

// uids of a side's member pods: pods of the committed epoch, once they know of it, until another
// epoch is committed.
std::set<std::string> MembersOf(const Side& side, bool wants_pods);

// Sets label and gate according to `members`. Pods that are being deleted stay as they are.
// `names_pool`: pods that an operator made before the service used pools get their pool's label,
// by which gateways find them.
void PlanMarks(const Side& side, const std::set<std::string>& members, PlanBuilder& out,
               bool names_pool = false);

// Deletes pods that are not members and have no member label. A pod with the label counts in a
// PodDisruptionBudget and must not disappear unnoticed.
void PlanRemovals(const Side& side, const std::vector<PodRemoval>& removals,
                  const std::set<std::string>& members, PlanBuilder& out);

}  // namespace janus::control
