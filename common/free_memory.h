#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace janus {

// Bytes that can be taken on this machine without swapping: the kernel's MemAvailable, or what the
// limits of our cgroup (version 2) and of those above it leave, if that is less. Shared memory
// (memfds) comes out of the same. Reads /proc and /sys.
Result<int64_t> AvailableMemoryBytes();

// The part of it that reads text: the content of /proc/meminfo.
Result<int64_t> ParseMemAvailable(const std::string& meminfo);

}  // namespace janus
