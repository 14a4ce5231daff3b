#pragma once

#include <span>
#include <string>
#include <vector>

#include "operator/api/tree.h"

namespace janus::control {

// What a cluster's controllers make of a Deployment, as far as one machine needs it: its pods of
// the template as it is now, as many as asked for. Pods of an older template go first and those of
// the new one come when they have gone, whatever the strategy says: two would want the same port.
struct DeploymentPlan {
  std::vector<Node> create;         // pods, whole
  std::vector<std::string> remove;  // names of pods
  Node deployment;                  // with its status
};

// `pods`: those it owns. Pure: the same world gives the same names.
DeploymentPlan PlanDeployment(const Node& deployment, std::span<const Node> pods);

// Whether the deployment controls the pod.
bool IsPodOf(const Node& deployment, const Node& pod);

}  // namespace janus::control
