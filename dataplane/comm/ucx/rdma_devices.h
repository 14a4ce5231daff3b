#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace janus::dataplane {

// A network device that libibverbs knows.
struct RdmaDevice {
  std::string name;    // "mlx5_0"
  int numa_node = -1;  // -1: the machine does not say
  int port = 0;        // the first that is up; 0: none is
  friend bool operator==(const RdmaDevice&, const RdmaDevice&) = default;
};

// Those of this machine, by name; none where there is no such hardware or no driver for it.
std::vector<RdmaDevice> FindRdmaDevices();

// The NUMA node whose cores the calling thread runs on.
int CurrentNumaNode();

// The device of the node that has a port up, else the first that has, names ascending; absent: none
// has. Pure.
std::optional<RdmaDevice> NearestRdmaDevice(std::span<const RdmaDevice> devices, int numa_node);

// This machine's network interfaces that are up, without the loopback one, names ascending.
std::vector<std::string> FindInterfaces();

// UCX's list of devices (UCX_NET_DEVICES): the RDMA device's port first, then the interfaces, as a
// peer without RDMA is reached over TCP. Pure.
std::string UcxDevices(const RdmaDevice& device, std::span<const std::string> interfaces);

}  // namespace janus::dataplane
