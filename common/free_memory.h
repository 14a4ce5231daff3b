#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace janus {

// Bytes that can be allocated on this machine without swapping: the kernel's MemAvailable, or what
// the limits of our cgroup (version 2) and its ancestors leave, if that is less. Shared memory
// (memfds) counts in the same. Reads /proc and /sys.
Result<int64_t> AvailableMemoryBytes();

// The parsing part: the content of /proc/meminfo.
Result<int64_t> ParseMemAvailable(const std::string& meminfo);

}  // namespace janus
