#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/status.h"

namespace janus {

// What a process may take of its machine.
struct ProcessRoom {
  int64_t memory_bytes = 0;
  // True: the limit of this process's cgroup. False: the machine's free memory plus what this
  // process holds.
  bool memory_is_limited = false;
  int cores = 1;
  bool cores_are_limited = false;  // by a cgroup's quota, rounded down
  // Of the GPU that it computes on: what that has free, and what the process itself holds of it.
  // Nothing: it computes on CPUs, out of the memory above.
  std::optional<int64_t> device_memory_bytes = std::nullopt;
};

// Of this process, by its cgroup and those above it, version 1 or 2, also from inside a container,
// where a version 1 cgroup's path is not that of what is mounted. `root` stands for "/". Reads
// /proc and /sys. Unavailable: /proc cannot be read.
Result<ProcessRoom> ReadProcessRoom(const std::string& root = "");

}  // namespace janus
