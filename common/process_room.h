#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/status.h"

namespace janus {

// The part of its machine that a process may use.
struct ProcessRoom {
  int64_t memory_bytes = 0;
  // True: the limit of this process's cgroup. False: the machine's free memory plus what this
  // process holds.
  bool memory_is_limited = false;
  int cores = 1;
  bool cores_are_limited = false;  // by a cgroup's quota, rounded down
  // For a process that computes on a GPU: the GPU's free memory plus what the process itself holds
  // there. Nothing: it computes on CPUs, in the memory above.
  std::optional<int64_t> device_memory_bytes = std::nullopt;
};

// Reads the limits of this process's cgroup and its ancestors, version 1 or 2. Also works inside a
// container, where a version 1 cgroup's path differs from its mount. `root` stands for "/". Reads
// /proc and /sys. Unavailable: /proc cannot be read.
Result<ProcessRoom> ReadProcessRoom(const std::string& root = "");

// What one of `processes` equal processes of a cgroup may use: its limits divided by their number,
// at least one core. Without a limit they share the machine with other processes. Memory
// of a device is not divided: each has its own.
ProcessRoom ShareOf(ProcessRoom room, int processes);

}  // namespace janus
