#pragma once

#include <span>
#include <string>
#include <vector>

#include "operator/api/tree.h"

namespace janus::control {

// Does a Deployment controller's work for one machine: creates the wanted number of pods from the
// current template. Whatever the strategy says, pods of an older template end before new ones
// start, because both would need the same port.
struct DeploymentPlan {
  std::vector<Node> create;         // complete pods
  std::vector<std::string> remove;  // names of pods
  Node deployment;                  // with its status
};

// `pods`: those that it owns. Pure: the same input gives the same names.
DeploymentPlan PlanDeployment(const Node& deployment, std::span<const Node> pods);

// Whether the deployment controls the pod.
bool IsPodOf(const Node& deployment, const Node& pod);

}  // namespace janus::control
