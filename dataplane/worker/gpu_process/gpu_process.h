#pragma once

#include <functional>
#include <string>

#include "common/clock.h"
#include "common/log.h"
#include "common/status.h"
#include "common/stop_signals.h"
#include "dataplane/worker/gpu_process/instance_order.h"
#include "dataplane/worker/stop_requests.h"

namespace janus::dataplane {

// The process of one GPU (docs/cuda.md). The workers that share the GPU have their instances run in
// it, each on a thread, so that all use one CUDA context: kernels of different processes take turns
// on a GPU, those of one process run beside each other.
//
// To the rest of the system an instance is still the worker that ordered it. A signal to the worker
// ends the instance, and the worker's exit code is the instance's. If the worker is killed, its
// instance ends at once. If this process ends, so do all its workers.
struct GpuProcessOptions {
  std::string socket;  // path of the Unix socket where workers connect
  // Runs an instance on the calling thread until it ends, and returns its exit code.
  std::function<int(const InstanceOrder&, StopRequests&)> run;
  std::function<void()> on_ready;  // workers can connect
  // An instance does not end, and another waits for its address. Must end this process: only the
  // kernel can take away what a thread holds.
  std::function<void()> on_stuck;
  Seconds ends_within{10};
  // So many instances at once; further workers wait.
  int most_instances = 64;
};

// Serves until a stop signal has come and all instances have ended; the signal asks each of them to
// end, unless its worker did. Returns an error if it cannot listen. Call it on the thread that made
// `stop`.
Status RunGpuProcess(const GpuProcessOptions& options, StopSignals& stop, const Logger& log);

}  // namespace janus::dataplane
