#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "operator/reconcile/children/children.h"
#include "operator/reconcile/pass/pass_context.h"
#include "operator/reconcile/pods/pod_template.h"
#include "operator/reconcile/pods/pods.h"
#include "operator/reconcile/status/status.h"

namespace janus::control {

// Pods that are to be made of one role.
struct PodOrder {
  Role role = Role::kAttention;
  int count = 0;
  std::string revision;
  std::string image;
};

// Raises status.roles[].lastPodId by what `orders` ask for, and writes what else the operator
// remembers of the image, in one compare-and-swap of `service_tree`'s status: it is replaced by the
// object as written. False: it was refused, and no pod may be made. The first ids are those after
// LastPodId of the tree as it was.
bool ReserveIds(const std::vector<PodOrder>& orders, const PinnedImage& pinned, Node& service_tree,
                PassContext& context);

// Posts the pods of an order, the first with id `first`; ends with the first that is refused, or
// whose name is taken. Returns the first id that is no pod's yet.
int64_t MakePods(const PodOrder& order, int64_t first, const OperatorDefaults& defaults,
                 PassContext& context);

// Label and readiness gate say who is of the committed topology: `members`, uids. Pods that leave
// are left as they are. Returns the uids of those whose label is known to say the truth.
std::set<std::string> MarkMembers(std::span<const PodSeen> pods,
                                  const std::set<std::string>& members, PassContext& context,
                                  WallTime wall);

// Deletes those of `removals` whose uid is in `unlabelled`: what still counts in a
// PodDisruptionBudget must not go behind its back.
void RemovePods(const std::vector<PodRemoval>& removals, const std::set<std::string>& unlabelled,
                PassContext& context);

}  // namespace janus::control
