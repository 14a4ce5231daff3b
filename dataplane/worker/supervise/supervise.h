#pragma once

#include <string>
#include <vector>

#include "common/stop_signals.h"
#include "dataplane/worker/supervise/child_command.h"

namespace janus::dataplane {

// `janus-worker --supervise`: runs the instances and serves their pages at `pages` (empty: none)
// until a stop signal. `arguments`: of this process, its name first. Prints "ready ADDRESS"
// once all instances are ready for the first time. Returns the exit code of the process; 2: the
// flags cannot be used. Call it on the main thread before others start.
int Supervise(const Supervision& what, const std::string& pages,
              const std::vector<std::string>& arguments, StopSignals& stop);

}  // namespace janus::dataplane
