#pragma once

#include <string>

#include "common/clock.h"
#include "operator/api/tree.h"
#include "operator/local/node/container_life.h"
#include "operator/local/node/pod_run.h"

namespace janus::control {

// State of a pod that runs here.
struct PodOnNode {
  const ContainerRun& run;
  const ContainerLife& life;
  std::string ip;
  bool is_started = false;  // its startup probe has succeeded since the container started
  bool is_ready = false;    // its readiness probe succeeds
  WallTime since = {};      // when it came to this node
};

// Returns `pod` with the status that a kubelet would write. Keeps conditions of other writers, and
// includes readiness gates in Ready. The time of a condition changes only with its status. Pure.
Node WithStatus(const Node& pod, const PodOnNode& seen, MonotonicTime now, WallTime wall);

// Returns `pod` marked as one that can never run here.
Node WithFailure(const Node& pod, const std::string& reason, const std::string& message,
                 WallTime wall);

}  // namespace janus::control
