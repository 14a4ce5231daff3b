#pragma once

#include <string>
#include <vector>

#include "common/stop_signals.h"

namespace janus::dataplane {

// Has the process of a GPU (gpu_process.h), which serves at `socket`, run this worker's instance:
// one that listens at `listen`, from these arguments of this process, the program's name first.
// Passes stop signals on, and returns the exit code of the instance. 1: that process has ended, or
// cannot be reached; stderr then says so.
int RunInGpuProcess(const std::string& socket, const std::string& listen,
                    const std::vector<std::string>& arguments, StopSignals& stop);

}  // namespace janus::dataplane
