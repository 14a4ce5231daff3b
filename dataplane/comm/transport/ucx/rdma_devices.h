#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/comm/transport/ucx/pci_place.h"

namespace janus::dataplane {

enum class LinkLayer : uint8_t { kOther, kInfiniBand, kEthernet };
std::string_view ToString(LinkLayer link);

struct RdmaPort {
  int number = 0;  // 1..
  bool is_up = false;
  LinkLayer link = LinkLayer::kOther;
  int64_t bits_per_second = 0;  // in each direction; 0: not known
  friend bool operator==(const RdmaPort&, const RdmaPort&) = default;
};

// A network device of the machine that does RDMA.
struct RdmaDevice {
  std::string name;  // "mlx5_0"
  PciPlace place;
  std::vector<RdmaPort> ports;  // by number; empty: it cannot be opened
  // False: only sysfs lists it, and this process cannot use it, for example in a container that was
  // given other devices.
  bool is_usable = true;
  uint32_t vendor = 0;  // number of its maker (ibv_device_attr.vendor_id); 0: not known
  friend bool operator==(const RdmaDevice&, const RdmaDevice&) = default;
};

// The devices that libibverbs lists, with their places, then those that only sysfs lists, by name.
// Empty without such hardware or its driver.
std::vector<RdmaDevice> FindRdmaDevices(const std::string& root = "/sys");

// The same without libibverbs: fills in the places of `listed` from the sysfs at `root`, and adds
// the devices that only sysfs lists.
void AddFromSysfs(const std::string& root, std::vector<RdmaDevice>& listed);

// Whether a name comes before another, comparing digits as numbers: mlx5_2 before mlx5_10. Pure.
bool ComesBefore(const std::string& a, const std::string& b);

// Bits per second of a port, from the codes for width and speed that libibverbs reports (InfiniBand
// specification); 0: unknown codes. Pure.
int64_t BitsPerSecond(uint32_t width, uint32_t speed);

// "400 Gbit/s"; "an unknown rate" for 0. Pure.
std::string RateText(int64_t bits_per_second);

// The NUMA node that the calling thread runs on.
int CurrentNumaNode();

// This machine's network interfaces that are up, without the loopback one, names ascending.
std::vector<std::string> FindInterfaces();

// UCX's list of devices (UCX_NET_DEVICES): the RDMA device's port first, then the interfaces, which
// reach peers without RDMA over TCP. Pure.
std::string UcxDevices(std::string_view device, int port, std::span<const std::string> interfaces);

}  // namespace janus::dataplane
