#include "dataplane/worker/network_choice.h"

#include <algorithm>

#include "dataplane/comm/transport/ucx/ucp_worker.h"

namespace janus::dataplane {
namespace {

// Reliable connections; UCX sets them up by datagrams (UD). A large message over UD would move only
// while its sender calls UCX, but our sender computes meanwhile.
constexpr char kRdmaTransports[] = "rc,dc";
// Added for peers without RDMA.
constexpr char kAndTcp[] = ",tcp";
// The number by which NVIDIA's (Mellanox') devices name their maker (ibv_device_attr.vendor_id).
constexpr uint32_t kMellanox = 0x02c9;

std::string Joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

// Describes a machine without a usable RDMA device.
std::string NoneOf(const std::vector<RdmaDevice>& devices) {
  if (devices.empty()) return "this machine has no RDMA device";
  std::string text;
  for (const RdmaDevice& device : devices) {
    text += (text.empty() ? "" : ", ") + device.name +
            (!device.is_usable      ? " is not given to this process"
             : device.ports.empty() ? " cannot be opened"
                                    : " has no port that is up");
  }
  return text;
}

std::string NameOf(const RdmaUser& user) {
  return user.gpu.empty() ? "CPUs on NUMA node " + std::to_string(user.numa_node)
                          : "GPU " + user.gpu;
}

}  // namespace

NetworkHere LookForNetwork(std::string_view gpu, const std::string& root) {
  NetworkHere here;
  here.devices = FindRdmaDevices(root);
  here.interfaces = FindInterfaces();
  here.user.gpu = PciAddress(gpu);
  here.user.numa_node = CurrentNumaNode();
  if (!here.user.gpu.empty()) here.user.gpus = GpusLike(root, PlaceOf(root, here.user.gpu));
  here.named = ucx::ConfiguredDevices();
  return here;
}

Result<NetworkChoice> ChooseNetwork(ExchangeTransport transport, const NetworkHere& here,
                                    const Logger& log) {
  NetworkChoice choice;
  choice.devices = here.named;
  std::optional<RdmaChoice> chosen;
  if (transport != ExchangeTransport::kTcp) {
    chosen = here.named.empty() ? ChooseRdmaDevice(here.devices, here.user)
                                : NamedRdmaDevice(here.devices, here.named);
  }
  if (!chosen) {
    std::string why = NoneOf(here.devices);
    if (!here.named.empty()) why = "UCX_NET_DEVICES names no RDMA port that is up";
    if (transport == ExchangeTransport::kTcp) why = "the service's transport is TCP";
    if (transport == ExchangeTransport::kRdma) {
      return FailedPrecondition("exchange transport RDMA: " + why +
                                "; give this worker a device that is up, or use Auto, which takes "
                                "TCP instead");
    }
    log.Info("the exchange goes over TCP",
             {{"for", NameOf(here.user)},
              {"reason", why},
              {"ucx_net_devices", choice.devices.empty() ? "all" : choice.devices}});
    return choice;
  }
  const bool with_tcp = transport != ExchangeTransport::kRdma;
  choice.transports = std::string(kRdmaTransports) + (with_tcp ? kAndTcp : "");
  if (here.named.empty()) {
    choice.devices = UcxDevices(chosen->device, chosen->port,
                                with_tcp ? here.interfaces : std::vector<std::string>());
  }
  choice.checks_datagrams =
      std::any_of(here.devices.begin(), here.devices.end(), [&](const RdmaDevice& device) {
        return device.name == chosen->device && device.vendor == kMellanox;
      });
  choice.device = {chosen->device, chosen->port, std::string(ToString(chosen->link)),
                   chosen->bits_per_second, chosen->why};
  log.Info("RDMA device of the exchange",
           {{"for", NameOf(here.user)},
            {"device", chosen->device},
            {"port", chosen->port},
            {"link_layer", choice.device.link_layer},
            {"rate", RateText(chosen->bits_per_second)},
            {"why", chosen->why},
            {"passed_over", chosen->passed_over.empty() ? "none" : Joined(chosen->passed_over)},
            {"ucx_net_devices", choice.devices}});
  return choice;
}

}  // namespace janus::dataplane
