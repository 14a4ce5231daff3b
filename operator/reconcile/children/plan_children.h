#pragma once

#include <vector>

#include "operator/reconcile/children/children.h"
#include "operator/reconcile/pass/plan_builder.h"
#include "operator/reconcile/rollout/sides.h"
#include "operator/reconcile/spec/desired.h"

namespace janus::control {

// The pods of a pool's committed epochs. Pure.
CommittedPods CommittedPodsOf(const Sides& sides);

// The pools beside the first, whose sides and goal the other arguments are.
struct OtherPools {
  CommittedPods committed;
  int highest = 1;  // number of any pool that is wanted or still there
};

// All children that a service needs: ChildrenOf, and the MoERoleScalers of roles in mode External.
// Pure.
std::vector<Child> WantedChildren(const ServiceObserved& seen, const ReconcilerOptions& options,
                                  const Sides& sides, const Desired& desired,
                                  const OtherPools& others = {});

// Creates missing children and applies those that differ. Deletes our budgets, scalers and
// NetworkPolicies that are no longer wanted, and the headless Services of pools above
// `highest_pool`, the last one that is wanted or still there. Does not touch a foreign object with
// such a name. Pure.
void PlanChildren(const ServiceObserved& seen, const MoEService& service,
                  const std::vector<Child>& wanted, int highest_pool, PlanBuilder& out);

// The same for one child that WantedChildren leaves out. Pure.
void PlanOwnChild(const ServiceObserved& seen, const MoEService& service, const Child& child,
                  PlanBuilder& out);

// Names of all children that a service may have, by resource.
std::vector<std::pair<const Resource*, std::string>> ChildNames(const std::string& service);

}  // namespace janus::control
