#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "common/clock.h"
#include "common/log.h"
#include "common/status.h"
#include "operator/kube/object_api.h"
#include "operator/kube/timeline.h"
#include "operator/local/node/container_life.h"
#include "operator/local/node/pod_run.h"

namespace janus::control {

// Something that a container did.
struct ContainerEvent {
  enum class Kind { kReady, kEnded };
  Kind kind = Kind::kReady;
  ObjectKey pod;
  std::string process;  // as its log is called
  std::string container;
  std::string text;       // kReady: the address it told; kEnded: why, with last words and log
  bool expected = false;  // kEnded: its pod is being deleted, or the node stops
};

struct LocalNodeOptions {
  std::string name = "local";  // of the Node object
  std::string folder;          // of sockets; its path is bounded (run_folder.h)
  std::string log_dir;
  NodeGround ground;
  // Of a pod: what its process and its log are called; distinct. Pure.
  std::function<std::string(const Node& pod)> process_name;
  // Where workers serve their metrics: each the first free port from here; 0: a socket each.
  int first_metrics_port = 0;
  // In `folder`, a name under which a worker of any service is found whatever pods there are: a
  // link to the gRPC socket of one that runs, a ready one if there is. Empty: none.
  std::string members_link;
  RestartPauses pauses;
  Seconds starting_probe_period{0.1};
  Seconds stop_grace{5};
};

// What scheduler, Deployment controller and kubelet are to a cluster, for pods that are processes
// of this machine: binds every pod to the one node there is, starts its container's program, probes
// it, starts it again when it ends, ends it when the pod is deleted or its liveness probe fails,
// and writes the status of pods and Deployments. What is to be done is decided anew from the
// objects and the processes each time something happens; errors of writes are left to the next
// look.
class LocalNode {
 public:
  using Observe = std::function<void(const ContainerEvent&)>;

  // `api` and `timeline` outlive this; `timeline`'s time is the machine's. `observe` is called on
  // Run's thread.
  LocalNode(ObjectApi& api, const Timeline& timeline, Logger log, LocalNodeOptions options,
            Observe observe);
  ~LocalNode();

  // Once. Until `stop`; then every process is told to end, killed after stop_grace, and none is
  // left when this returns. An error: it could not begin. The thread must not end before: processes
  // die with it.
  Status Run(const std::stop_token& stop);

 private:
  class Running;

  ObjectApi& api_;
  const Timeline& timeline_;
  const Logger log_;
  const LocalNodeOptions options_;
  const Observe observe_;
};

}  // namespace janus::control
