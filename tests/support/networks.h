#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "dataplane/comm/handshake/handshake.h"
#include "dataplane/comm/transport/device_slots.h"
#include "dataplane/comm/transport/transport.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {

// The connected members of an epoch, by member index, attention first.
struct Network {
  TransportLayout layout;
  std::vector<std::unique_ptr<Transport>> members;
  std::shared_ptr<void> keep;

  Transport& attention(int rank) { return *members[static_cast<size_t>(rank)]; }
  Transport& experts(int rank) { return *members[static_cast<size_t>(layout.m + rank)]; }
};

// Connects one member; a separate process calls this.
using Join = std::function<Result<std::unique_ptr<Transport>>(
    const TransportLayout&, const ConnectOptions&, ExchangeListener&)>;

// Connects all members of a layout, which then wait by the policy.
using Connect = std::function<Network(const TransportLayout&, WaitPolicy)>;

// A way to connect members; suites run over all of these.
struct NetworkKind {
  std::string name;
  Connect connect;
  Join join;  // null if members share a process
};
inline void PrintTo(const NetworkKind& kind, std::ostream* out) {
  *out << kind.name;
}
// The kinds that this test binary links: within one memory domain (janus_test_networks), or over
// UCX and mixed (janus_test_networks_ucx). UCX uses TCP over the loopback interface, or the
// transports and devices that JANUS_UCX_TRANSPORTS and JANUS_UCX_DEVICES list (e2e/rdma).
std::vector<NetworkKind> AllNetworks();
// Of these, the ones with members that can be processes.
inline std::vector<NetworkKind> ProcessNetworks() {
  std::vector<NetworkKind> kinds = AllNetworks();
  std::erase_if(kinds, [](const NetworkKind& kind) { return !kind.join; });
  return kinds;
}

// Connects all members at once, each in a thread, with listeners in a folder that is removed with
// the network ("unix:"), on ports of this machine ("tcp:"), or both ("both").
Network ConnectAll(const TransportLayout& layout, WaitPolicy policy, std::string_view scheme,
                   const Join& join);
Network ConnectLoopback(const TransportLayout& layout, WaitPolicy policy);
Network ConnectMemory(const TransportLayout& layout, WaitPolicy policy);
Result<std::unique_ptr<Transport>> JoinMemory(const TransportLayout&, const ConnectOptions&,
                                              ExchangeListener&);
// Members are dealt over so many memory domains in turn, and use UCX outside their own. If they
// have devices, these are read over UCX too. (janus_test_networks_ucx)
Join JoinDomains(int domains);
// The same with the domain of each member, attention first.
Join JoinDomainsOf(std::vector<int> domain_of);
// Connects members with a device each. Contexts are by member; null: no device, and no slots for
// it. A member has no slots either if its device lacks such memory or flags. The contexts outlive
// the slots.
struct DeviceNetwork {
  Network network;
  std::vector<std::unique_ptr<DeviceSlots>> slots;
};
DeviceNetwork ConnectDevices(const TransportLayout& layout, WaitPolicy policy,
                             const std::vector<kernels::Context*>& contexts, const Join& join);
// Connects the one member in this process with members in separate processes. All connect at
// listeners, by member index, within two minutes. The others have neither transport nor slots here.
// `context` null: the member has no device.
DeviceNetwork ConnectMember(const TransportLayout& layout, WaitPolicy policy, PeerId self,
                            const std::vector<std::string>& listeners, kernels::Context* context);
// The identity that all members of a test share.
ConnectOptions TestOptions();

// Waits for a message in flight, at most 20 s.
inline bool AwaitTake(Transport& transport, PeerId from, int slot, SlotMessage& message) {
  return transport
      .Wait(MonotonicClock::now() + Scaled(std::chrono::seconds(20)),
            [&] { return transport.Take(from, slot, message); })
      .ok();
}
inline bool AwaitReceive(Transport& transport, PeerId from, Header& header,
                         std::vector<std::byte>& payload) {
  return transport
      .Wait(MonotonicClock::now() + Scaled(std::chrono::seconds(20)),
            [&] { return transport.Receive(from, header, payload); })
      .ok();
}

}  // namespace janus::dataplane
