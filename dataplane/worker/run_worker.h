#pragma once

#include <functional>

#include "common/log.h"
#include "dataplane/worker/settings.h"
#include "dataplane/worker/stop_requests.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// What an instance needs of the process that it is in.
struct WorkerProcess {
  Logger log;
  StopRequests& stop;
  std::function<void()> on_ready;  // it listens; called once
  // Its device has failed, and only a new process can use it again. Called on any thread.
  std::function<void()> on_failed_device;
};

// Runs one instance until something asks it to end, and returns an exit code. It computes in
// `context`. After the first request it ends once the service can do without it, after
// flags.drain_seconds at the latest. After a second one it ends at once.
int RunWorker(const WorkerFlags& flags, kernels::Context& context, const WorkerProcess& process);

}  // namespace janus::dataplane
