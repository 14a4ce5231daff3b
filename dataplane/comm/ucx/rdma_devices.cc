#include "dataplane/comm/ucx/rdma_devices.h"

#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>

#include "common/read_file.h"

namespace janus::dataplane {
namespace {

int FirstActivePort(ibv_device* device) {
  ibv_context* context = ibv_open_device(device);
  if (context == nullptr) return 0;
  ibv_device_attr attributes{};
  int active = 0;
  if (ibv_query_device(context, &attributes) == 0) {
    for (uint8_t port = 1; port <= attributes.phys_port_cnt && active == 0; ++port) {
      ibv_port_attr state{};
      if (ibv_query_port(context, port, &state) == 0 && state.state == IBV_PORT_ACTIVE) {
        active = port;
      }
    }
  }
  ibv_close_device(context);
  return active;
}

}  // namespace

std::vector<RdmaDevice> FindRdmaDevices() {
  std::vector<RdmaDevice> devices;
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) return devices;
  for (int i = 0; i < count; ++i) {
    RdmaDevice device;
    device.name = ibv_get_device_name(list[i]);
    const auto node = ReadFile(std::string(list[i]->ibdev_path) + "/device/numa_node", 64);
    if (node.ok()) device.numa_node = std::atoi(node->c_str());
    device.port = FirstActivePort(list[i]);
    devices.push_back(std::move(device));
  }
  ibv_free_device_list(list);
  std::sort(devices.begin(), devices.end(),
            [](const RdmaDevice& a, const RdmaDevice& b) { return a.name < b.name; });
  return devices;
}

int CurrentNumaNode() {
  unsigned cpu = 0, node = 0;
  return getcpu(&cpu, &node) == 0 ? static_cast<int>(node) : 0;
}

std::optional<RdmaDevice> NearestRdmaDevice(std::span<const RdmaDevice> devices, int numa_node) {
  const RdmaDevice* best = nullptr;
  for (const RdmaDevice& device : devices) {
    if (device.port == 0) continue;
    const bool nearer =
        device.numa_node == numa_node && best != nullptr && best->numa_node != numa_node;
    if (best == nullptr || nearer) best = &device;
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

std::vector<std::string> FindInterfaces() {
  std::vector<std::string> names;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return names;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if ((at->ifa_flags & IFF_UP) == 0 || (at->ifa_flags & IFF_LOOPBACK) != 0) continue;
    if (at->ifa_addr == nullptr) continue;
    if (at->ifa_addr->sa_family == AF_INET || at->ifa_addr->sa_family == AF_INET6) {
      names.emplace_back(at->ifa_name);
    }
  }
  freeifaddrs(list);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string UcxDevices(const RdmaDevice& device, std::span<const std::string> interfaces) {
  std::string devices = device.name + ":" + std::to_string(device.port);
  for (const std::string& interface : interfaces) devices += "," + interface;
  return devices;
}

}  // namespace janus::dataplane
