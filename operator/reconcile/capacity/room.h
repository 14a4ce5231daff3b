#pragma once

#include <cstdint>
#include <optional>

#include "common/process_room.h"

namespace janus::control {

// Memory and cores of a service. Its instances either share one machine with the gateway, or each
// has a pod.

// Instances of each node of the exchange, by role. Those with consecutive ranks are in one node.
// They share memory; all others are reached over a network.
struct NodeSizes {
  int attention = 1;
  int experts = 1;
};

// The GPUs of a machine. Its instances are dealt to them evenly, so that several may share one.
struct GpuRoom {
  int count = 0;             // at least 1
  int64_t memory_bytes = 0;  // that is free on each, at least
};

// Resources of a machine for a service.
struct MachineRoom {
  int64_t memory_bytes = 0;  // available without swapping
  int cores = 1;
  std::optional<NodeSizes> nodes = {};  // that the machine plays (janusctl serve --nodes)
  std::optional<GpuRoom> gpus = {};     // nothing: its workers can use none
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
