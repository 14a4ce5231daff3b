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

// The pods of one role on one side: how many to make, which should serve, which to delete
// (PlanPods). Nothing is made while `makes` is false. `out` hears when there is something to look
// at. Pure, as all here.
PodPlan PlanRolePods(const ServiceObserved& seen, const Side& side, Role role,
                     const Desired& desired, bool makes, PlanBuilder& out);

// Pods that are to be made of one role.
struct PodOrder {
  Role role = Role::kAttention;
  int count = 0;
  std::string revision;
  std::string image;
  const MoEService* service = nullptr;  // that they are made for
};

// Makes them. Their names are reserved in the service's status first: names that were reserved and
// came to be of no pod, as their creation was refused, are used before others.
void PlanNewPods(const ServiceObserved& seen, const std::vector<PodOrder>& orders,
                 const PinnedImage& pinned, const ReconcilerOptions& options, PlanBuilder& out);

// Which pods of a side are members: of the committed epoch, once they have been told, until another
// epoch is committed. uids.
std::set<std::string> MembersOf(const Side& side, bool wants_pods);

// Label and gate say which pods are members. Pods that leave stay as they are.
void PlanMarks(const Side& side, const std::set<std::string>& members, PlanBuilder& out);

// Deletes those that are no members and whose label does not say they are: a pod that counts in a
// PodDisruptionBudget must not go behind its back.
void PlanRemovals(const Side& side, const std::vector<PodRemoval>& removals,
                  const std::set<std::string>& members, PlanBuilder& out);

}  // namespace janus::control
