#include "dataplane/worker/connect.h"

#include <algorithm>
#include <map>

#include "common/gpu_links.h"
#include "dataplane/comm/transport/shared_memory.h"
#include "dataplane/comm/transport/ucx/transport.h"
#include "dataplane/worker/network_choice.h"

namespace janus::dataplane {
namespace {

const Instance& InstanceOf(const Topology& topology, PeerId peer) {
  const auto& role = peer.role == Role::kAttention ? topology.attention : topology.experts;
  return role[static_cast<size_t>(peer.rank.value)];
}

// Of two addresses the first one counts: peers outside the memory domain use it.
bool IsOnThisMachine(const std::string& exchange_address) {
  return exchange_address.starts_with("unix:") || exchange_address.starts_with("tcp:127.") ||
         exchange_address.starts_with("tcp:[::1]");
}

bool ShareMemory(const Topology& topology, PeerId a, PeerId b) {
  return !ForcesNetwork(topology.transport) &&
         InstanceOf(topology, a).domain == InstanceOf(topology, b).domain;
}

}  // namespace

Result<ConnectedExchange> ConnectExchange(const Topology& topology, const TransportLayout& layout,
                                          const ConnectOptions& options, std::string_view gpu,
                                          bool gpu_direct, ExchangeListener& listener,
                                          std::stop_token stop, const Logger& log) {
  const std::string& domain = InstanceOf(topology, layout.self).domain;
  NetworkOptions network;
  network.connect = options;
  network.shares_memory = [&](PeerId peer) { return ShareMemory(topology, layout.self, peer); };
  bool all_share = true, all_here = true;
  for (const PeerId peer : PeersOf(layout)) {
    if (network.shares_memory(peer)) continue;
    if (topology.transport == ExchangeTransport::kSharedMemory) {
      return FailedPrecondition("exchange transport SharedMemory: " + ToString(layout.self) +
                                " is in memory domain '" + domain + "', " + ToString(peer) +
                                " in '" + InstanceOf(topology, peer).domain + "'; use Auto");
    }
    all_share = false;
    all_here = all_here && IsOnThisMachine(InstanceOf(topology, peer).exchange_address) &&
               IsOnThisMachine(InstanceOf(topology, layout.self).exchange_address);
  }
  ConnectedExchange connected;
  std::unique_ptr<Transport>& transport = connected.transport;
  if (all_share) {
    JANUS_ASSIGN_OR_RETURN(transport,
                           ConnectSharedMemory(layout, options, listener, std::move(stop)));
  } else {
    if (all_here && topology.transport != ExchangeTransport::kRdma) {
      network.devices = "lo";  // all peers are on this machine
    } else {
      JANUS_ASSIGN_OR_RETURN(NetworkChoice choice,
                             ChooseNetwork(topology.transport, LookForNetwork(gpu), log));
      network.transports = std::move(choice.transports);
      network.devices = std::move(choice.devices);
      network.checks_datagrams = choice.checks_datagrams;
      network.reads_devices = gpu_direct && !choice.device.device.empty();
      connected.device = std::move(choice.device);
    }
    if (options.device != nullptr && !network.reads_devices) {
      options.device->NoteRefusal(gpu_direct ? "other machines are reached without RDMA"
                                             : "--gpu-direct is off");
    }
    JANUS_ASSIGN_OR_RETURN(transport, ConnectNetwork(layout, network, listener, std::move(stop)));
  }
  if (options.device != nullptr && !options.device->is_read_by_all()) {
    log.Info("peers read our data through host memory",
             {{"reason", options.device->refusal().empty() ? "a peer does not read ours"
                                                           : options.device->refusal()}});
  }
  std::map<std::string, std::string> peers_by;
  for (const PeerLink& link : LinksOf(*transport, options.device)) {
    std::string& peers = peers_by[link.transport];
    peers += (peers.empty() ? "" : ", ") + ToString(PeerId{link.role, link.rank});
  }
  for (const auto& [how, peers] : peers_by) {
    log.Info("exchange connected", {{"transport", how}, {"peers", peers}});
  }
  return connected;
}

std::unique_ptr<DeviceSlots> MakeDeviceSlots(const Topology& topology,
                                             const TransportLayout& layout,
                                             const ExchangeShape& shape, kernels::Context& context,
                                             bool gpu_direct, const Logger& log) {
  if (context.is_host()) return nullptr;
  if (const std::string_view why = WhyThroughHosts(shape); !why.empty()) {
    log.Info("peers read our data through host memory", {{"reason", std::string(why)}});
    return nullptr;
  }
  const auto has_rdma = [&] {
    const std::vector<RdmaDevice> devices = LookForNetwork(context.pci_address()).devices;
    return std::any_of(devices.begin(), devices.end(),
                       [](const RdmaDevice& device) { return device.is_usable; });
  };
  // Outside the memory domain GPU memory can be read only by RDMA.
  const bool reaches_all =
      gpu_direct && topology.transport != ExchangeTransport::kTcp && has_rdma();
  bool any = reaches_all, all = true;
  for (const PeerId peer : PeersOf(layout)) {
    if (peer.role == layout.self.role) continue;
    const bool shares = ShareMemory(topology, layout.self, peer);
    any = any || shares;
    all = all && (shares || reaches_all);
  }
  if (!any) return nullptr;
  Result<std::unique_ptr<DeviceSlots>> slots = DeviceSlots::Make(layout, context, all);
  if (slots.ok()) return *std::move(slots);
  log.Warning("peers read our data through host memory",
              {{"reason", std::string(slots.status().message())}});
  // Without own slots it can still read those of its peers. Each member decides by itself, and its
  // slots are read by all its readers or by none.
  slots = DeviceSlots::Make(layout, context, false);
  return slots.ok() ? *std::move(slots) : nullptr;
}

std::vector<MeasuredPeer> MeasureNodeLinks(const Topology& topology, const ExchangeShape& shape,
                                           Transport& transport, LinkBook& links,
                                           const Clock& clock, const std::stop_token& stop,
                                           const Logger& log) {
  const PeerId self = transport.layout().self;
  MeasureOptions options;
  options.crosses = [&](PeerId peer) { return !ShareMemory(topology, self, peer); };
  options.known = [&](PeerId peer) { return links.Find(InstanceOf(topology, peer).node); };
  links.KeepOnly(topology);
  std::vector<MeasuredPeer> measured = MeasureLinks(transport, shape.node_of, options, clock, stop);
  for (const MeasuredPeer& one : measured) {
    const std::string& node = InstanceOf(topology, one.peer).node;
    if (!one.link) {
      log.Warning("a link was not measured",
                  {{"peer", ToString(one.peer)}, {"node", node}, {"reason", one.why_not}});
      continue;
    }
    links.Put(node, *one.link);
    log.Info("link measured", {{"peer", ToString(one.peer)},
                               {"node", node},
                               {"latency_us", one.link->latency_seconds * 1e6},
                               {"bits_per_second", one.link->bytes_per_second * 8},
                               {"message_us", one.link->message_seconds * 1e6}});
  }
  return measured;
}

void NoteMeasured(const std::vector<MeasuredPeer>& measured, std::vector<PeerLink>& links) {
  for (const MeasuredPeer& one : measured) {
    const auto link = std::ranges::find_if(links, [&](const PeerLink& of) {
      return of.role == one.peer.role && of.rank == one.peer.rank;
    });
    if (link == links.end()) continue;
    link->measured = one.link;
    link->not_measured = one.why_not;
  }
}

std::vector<PeerLink> LinksOf(const Transport& transport, const DeviceSlots* device) {
  std::vector<PeerLink> links;
  for (const PeerId peer : PeersOf(transport.layout())) {
    std::string how(transport.Describe(peer));
    // Rows go one way, contributions the other.
    const bool reads = device != nullptr && (device->maps(peer) || device->reads_remotely(peer));
    const bool is_read = device != nullptr && device->is_read_by_all();
    if (peer.role == transport.layout().self.role) {
      if (device != nullptr && device->MapsLanding(peer)) how += kInGpus;
    } else if (reads || is_read) {
      how += reads && is_read ? kInGpus : kInGpusOneWay;
    }
    links.push_back({peer.role, peer.rank, how});
  }
  return links;
}

}  // namespace janus::dataplane
