#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace janus::control {

// What this machine has to give, asked before anything starts.

// Bytes that new processes can take without swapping: the kernel's MemAvailable, or what the
// cgroup's limit leaves if that is less. Shared memory (memfds) comes out of the same. Reads /proc
// and /sys.
Result<int64_t> AvailableMemoryBytes();

// The part of AvailableMemoryBytes that reads text: /proc/meminfo's content.
Result<int64_t> ParseMemAvailable(const std::string& meminfo);

// Whether `host:port` can be listened on: binds and lets go. Port 0 always can.
// AlreadyExists: in use; InvalidArgument: no such address here; names both.
Status CheckCanListen(const std::string& host, int port);

}  // namespace janus::control
