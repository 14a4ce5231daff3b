#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "common/status.h"
#include "operator/kube/object_api.h"
#include "operator/kube/timeline.h"
#include "operator/local/gpus.h"
#include "operator/local/node/container_life.h"
#include "operator/local/node/pod_run.h"

namespace janus::control {

// Something that happened to a container.
struct ContainerEvent {
  enum class Kind { kReady, kEnded };
  Kind kind = Kind::kReady;
  ObjectKey pod;
  std::string process;  // also the name of its log
  std::string container;
  std::string text;       // kReady: its address; kEnded: why, with last words and log path
  bool expected = false;  // kEnded: its pod is being deleted, or the node stops
};

struct LocalNodeOptions {
  std::string name = "local";  // of the Node object
  std::string folder;          // for sockets; its path length is limited (run_folder.h)
  std::string log_dir;
  NodeGround ground;
  // Name of a pod's process and log; unique per pod. Pure.
  std::function<std::string(const Node& pod)> process_name;
  // First port for workers' metrics; each worker takes the next free port. 0: a socket per worker.
  int first_metrics_port = 0;
  // A link in `folder` for each pool, named with the pool's number behind it: to the gRPC socket of
  // a running worker of the pool, preferably a ready one, so that a worker can be found whatever
  // pods exist. Empty: no links.
  std::string members_link;
  // Of this machine. Pods whose container has a GPU limit are dealt to them evenly, however many
  // there are. All instances on one GPU run in one process of it (gpu_shares.h).
  std::vector<LocalGpu> gpus;
  RestartPauses pauses;
  Seconds starting_probe_period{0.1};
  Seconds stop_grace{5};
};

// The scheduler, Deployment controller and kubelet for pods that are local processes. It binds
// every pod to the only node, starts and probes the container's program, restarts it when it ends,
// and stops it when the pod is deleted or its liveness probe fails. It writes the status of pods
// and Deployments. After each event it decides anew from the objects and processes. A failed write
// is retried at the next event.
class LocalNode {
 public:
  using Observe = std::function<void(const ContainerEvent&)>;

  // `api` and `timeline` outlive this. `timeline` must follow the system's clock. `observe` is
  // called on Run's thread.
  LocalNode(ObjectApi& api, const Timeline& timeline, Logger log, LocalNodeOptions options,
            Observe observe);
  ~LocalNode();

  // Call once. Runs until `stop`; then it sends SIGTERM to every process, SIGKILL after stop_grace,
  // and returns when all have ended. An error: it could not start. The calling thread must live
  // until it returns, because processes die with it.
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
