#pragma once

#include <cstdint>
#include <optional>

#include "common/process_room.h"

namespace janus::control {

// Memory and cores of a service. Its instances either share one machine with the gateway, or each
// has a pod.

// Resources of a machine for a service.
struct MachineRoom {
  int64_t memory_bytes = 0;  // available without swapping
  int cores = 1;
  // The nodes that the machine plays (cli/serve.h): the instances of each.
  int attention_per_node = 1;
  int experts_per_node = 1;
};

// Resources of one pod of each role, as its worker reports them; nothing: not known yet.
struct PodRooms {
  std::optional<ProcessRoom> attention;
  std::optional<ProcessRoom> experts;
  // The expert pods that will be made have that room. False: those of an older spec have it, and
  // from it no number of pods follows.
  bool experts_are_wanted = true;
};

}  // namespace janus::control
