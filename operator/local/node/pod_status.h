#pragma once

#include <string>

#include "common/clock.h"
#include "operator/api/tree.h"
#include "operator/local/node/container_life.h"
#include "operator/local/node/pod_run.h"

namespace janus::control {

// What is to be said of a pod that runs here.
struct PodOnNode {
  const ContainerRun& run;
  const ContainerLife& life;
  std::string ip;
  bool is_started = false;  // its startup probe has succeeded since its container was started
  bool is_ready = false;    // its readiness probe succeeds
  WallTime since = {};      // it came to this node
};

// `pod` with the status that a kubelet would write. Conditions of others stay, readiness gates are
// counted into Ready, and a condition's time moves with its status alone. Pure.
Node WithStatus(const Node& pod, const PodOnNode& seen, MonotonicTime now, WallTime wall);

// `pod` as one that can never run here.
Node WithFailure(const Node& pod, const std::string& reason, const std::string& message,
                 WallTime wall);

}  // namespace janus::control
