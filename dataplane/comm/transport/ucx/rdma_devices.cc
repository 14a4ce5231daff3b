#include "dataplane/comm/transport/ucx/rdma_devices.h"

#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace janus::dataplane {
namespace {

// For a libibverbs that also reports speeds beyond 8 bits, which the older field cannot hold.
template <class Attributes>
uint32_t SpeedOf(const Attributes& port) {
  if constexpr (requires { port.active_speed_ex; }) {
    if (port.active_speed_ex != 0) return port.active_speed_ex;
  }
  return port.active_speed;
}

LinkLayer LinkOf(uint8_t link_layer) {
  switch (link_layer) {
    case IBV_LINK_LAYER_INFINIBAND:
      return LinkLayer::kInfiniBand;
    case IBV_LINK_LAYER_ETHERNET:
      return LinkLayer::kEthernet;
    default:
      return LinkLayer::kOther;
  }
}

// Its ports and maker.
RdmaDevice Ask(ibv_device* device) {
  RdmaDevice out;
  out.name = ibv_get_device_name(device);
  ibv_context* context = ibv_open_device(device);
  if (context == nullptr) return out;
  ibv_device_attr attributes{};
  if (ibv_query_device(context, &attributes) == 0) {
    out.vendor = attributes.vendor_id;
    for (int number = 1; number <= attributes.phys_port_cnt; ++number) {
      ibv_port_attr state{};
      if (ibv_query_port(context, static_cast<uint8_t>(number), &state) != 0) continue;
      out.ports.push_back({number, state.state == IBV_PORT_ACTIVE, LinkOf(state.link_layer),
                           BitsPerSecond(state.active_width, SpeedOf(state))});
    }
  }
  ibv_close_device(context);
  return out;
}

}  // namespace

std::string_view ToString(LinkLayer link) {
  switch (link) {
    case LinkLayer::kInfiniBand:
      return "InfiniBand";
    case LinkLayer::kEthernet:
      return "Ethernet";
    case LinkLayer::kOther:
      break;
  }
  return "another link layer";
}

std::vector<RdmaDevice> FindRdmaDevices(const std::string& root) {
  std::vector<RdmaDevice> devices;
  int count = 0;
  if (ibv_device** list = ibv_get_device_list(&count); list != nullptr) {
    for (int i = 0; i < count; ++i) {
      devices.push_back(Ask(list[i]));
    }
    ibv_free_device_list(list);
  }
  AddFromSysfs(root, devices);
  return devices;
}

void AddFromSysfs(const std::string& root, std::vector<RdmaDevice>& listed) {
  namespace fs = std::filesystem;
  const std::string folder = root + "/class/infiniband";
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    auto device = std::find_if(listed.begin(), listed.end(),
                               [&](const RdmaDevice& known) { return known.name == name; });
    if (device == listed.end()) {
      device = listed.emplace(listed.end());
      device->name = name;
      device->is_usable = false;
    }
    device->place = PlaceOfPath(entry->path().string());
  }
  std::sort(listed.begin(), listed.end(),
            [](const RdmaDevice& a, const RdmaDevice& b) { return ComesBefore(a.name, b.name); });
}

bool ComesBefore(const std::string& a, const std::string& b) {
  return strverscmp(a.c_str(), b.c_str()) < 0;
}

int64_t BitsPerSecond(uint32_t width, uint32_t speed) {
  int64_t lanes = 0;
  switch (width) {
    case 1:
      lanes = 1;
      break;
    case 2:
      lanes = 4;
      break;
    case 4:
      lanes = 8;
      break;
    case 8:
      lanes = 12;
      break;
    case 16:
      lanes = 2;
      break;
    default:
      return 0;
  }
  // In the order of Linux: SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR.
  constexpr int64_t kMegabits[] = {2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000, 200000};
  for (size_t i = 0; i < std::size(kMegabits); ++i) {
    if (speed == uint32_t{1} << i) return lanes * kMegabits[i] * 1'000'000;
  }
  return 0;
}

std::string RateText(int64_t bits_per_second) {
  if (bits_per_second <= 0) return "an unknown rate";
  const int64_t tenths = bits_per_second / 100'000'000;
  const std::string part = tenths % 10 == 0 ? "" : "." + std::to_string(tenths % 10);
  return std::to_string(tenths / 10) + part + " Gbit/s";
}

int CurrentNumaNode() {
  unsigned cpu = 0, node = 0;
  return getcpu(&cpu, &node) == 0 ? static_cast<int>(node) : 0;
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

std::string UcxDevices(std::string_view device, int port, std::span<const std::string> interfaces) {
  std::string devices = std::string(device) + ":" + std::to_string(port);
  for (const std::string& interface : interfaces) devices += "," + interface;
  return devices;
}

}  // namespace janus::dataplane
