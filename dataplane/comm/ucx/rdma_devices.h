#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace janus::dataplane {

// A network device that libibverbs knows.
struct RdmaDevice {
  std::string name;     // "mlx5_0"
  int numa_node = -1;   // -1: the machine does not say
  bool active = false;  // a port is up
  friend bool operator==(const RdmaDevice&, const RdmaDevice&) = default;
};

// Those of this machine, by name; none where there is no such hardware or no driver for it.
std::vector<RdmaDevice> FindRdmaDevices();

// The NUMA node whose cores the calling thread runs on.
int CurrentNumaNode();

// The active device of the node, else the first active one, names ascending; absent: none is
// active. Pure.
std::optional<RdmaDevice> NearestRdmaDevice(std::span<const RdmaDevice> devices, int numa_node);

}  // namespace janus::dataplane
