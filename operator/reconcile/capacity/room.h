#pragma once

#include <cstdint>
#include <optional>

#include "common/process_room.h"

namespace janus::control {

// What the instances of a service have to live in. Either they share one machine, gateway and all;
// or each has a pod.

// What a machine has for a service.
struct MachineRoom {
  int64_t memory_bytes = 0;  // that can be taken without swapping
  int cores = 1;
};

// What one pod of each role has, as its worker says; nothing: not known yet.
struct PodRooms {
  std::optional<ProcessRoom> attention;
  std::optional<ProcessRoom> experts;
  // The expert pods that will be made have that room. False: those of an older spec have it, and
  // from it no number of pods follows.
  bool experts_are_wanted = true;
};

}  // namespace janus::control
