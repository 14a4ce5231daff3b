#include "tests/support/networks.h"

#include <thread>

#include "dataplane/comm/transport/loopback.h"
#include "dataplane/comm/transport/segment.h"
#include "dataplane/comm/transport/shared_memory.h"
#include "tests/support/temp_folder.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {
namespace {

struct Listeners {
  TempFolder folder;
  std::vector<std::unique_ptr<ExchangeListener>> list;  // destroyed before the folder
};

}  // namespace

ConnectOptions TestOptions() {
  ConnectOptions options;
  options.identity.epoch = 1;
  options.identity.epoch_key[3] = std::byte{77};
  options.identity.numerics = "test";
  options.deadline = MonotonicClock::now() + Scaled(std::chrono::seconds(20));
  return options;
}

Network ConnectLoopback(const TransportLayout& layout, WaitPolicy policy) {
  Network network;
  network.layout = layout;
  LoopbackNetwork loopback(layout);
  for (int member = 0; member < layout.m + layout.n; ++member) {
    network.members.push_back(loopback.Connect(MemberAt(layout, member), policy));
  }
  return network;
}

Network ConnectAll(const TransportLayout& layout, WaitPolicy policy, std::string_view scheme,
                   const Join& join) {
  const auto listeners = std::make_shared<Listeners>();
  const int members = layout.m + layout.n;
  for (int member = 0; member < members; ++member) {
    const std::string tcp = "tcp:127.0.0.1:0";
    const std::string file = "unix:" + listeners->folder.path() + "/" + std::to_string(member);
    listeners->list.push_back(*ExchangeListener::Create(scheme == "tcp:"    ? tcp
                                                        : scheme == "unix:" ? file
                                                                            : tcp + "," + file));
  }
  ConnectOptions options = TestOptions();
  options.policy = policy;
  for (const auto& listener : listeners->list) options.addresses.push_back(listener->address());
  Network network;
  network.layout = layout;
  network.members.resize(static_cast<size_t>(members));
  network.keep = listeners;
  std::vector<std::jthread> threads;
  for (int member = 0; member < members; ++member) {
    threads.emplace_back([&, member] {
      TransportLayout own = layout;
      own.self = MemberAt(layout, member);
      auto connected = join(own, options, *listeners->list[static_cast<size_t>(member)]);
      JANUS_CHECK(connected.ok(), connected.status().ToString());
      network.members[static_cast<size_t>(member)] = std::move(*connected);
    });
  }
  threads.clear();
  return network;
}

DeviceNetwork ConnectDevices(const TransportLayout& layout, WaitPolicy policy,
                             const std::vector<kernels::Context*>& contexts, const Join& join) {
  DeviceNetwork connected;
  connected.slots.resize(contexts.size());
  const Join with_device = [&](const TransportLayout& own, const ConnectOptions& options,
                               ExchangeListener& listener) -> Result<std::unique_ptr<Transport>> {
    const auto member = static_cast<size_t>(MemberIndex(own, own.self));
    std::unique_ptr<DeviceSlots>& slots = connected.slots[member];
    if (contexts[member] != nullptr) {
      Result<std::unique_ptr<DeviceSlots>> made = DeviceSlots::Make(own, *contexts[member]);
      if (made.ok()) {
        slots = *std::move(made);
      } else {
        JANUS_CHECK(made.status().code() == StatusCode::kFailedPrecondition,
                    made.status().ToString());
      }
    }
    ConnectOptions with = options;
    with.device = slots.get();
    return join(own, with, listener);
  };
  connected.network = ConnectAll(layout, policy, "unix:", with_device);
  return connected;
}

DeviceNetwork ConnectMember(const TransportLayout& layout, WaitPolicy policy, PeerId self,
                            const std::vector<std::string>& listeners, kernels::Context* context) {
  DeviceNetwork connected;
  connected.network.layout = layout;
  connected.network.members.resize(listeners.size());
  connected.slots.resize(listeners.size());
  TransportLayout own = layout;
  own.self = self;
  const auto member = static_cast<size_t>(MemberIndex(own, self));
  if (context != nullptr) connected.slots[member] = *DeviceSlots::Make(own, *context);
  ConnectOptions options = TestOptions();
  options.policy = policy;
  options.deadline = MonotonicClock::now() + Scaled(std::chrono::minutes(2));
  options.addresses = listeners;
  options.device = connected.slots[member].get();
  const std::shared_ptr<ExchangeListener> listener = *ExchangeListener::Create(listeners[member]);
  auto transport = ConnectSharedMemory(own, options, *listener, {});
  JANUS_CHECK(transport.ok(), transport.status().ToString());
  connected.network.members[member] = *std::move(transport);
  connected.network.keep = listener;
  return connected;
}

Result<std::unique_ptr<Transport>> JoinMemory(const TransportLayout& layout,
                                              const ConnectOptions& options,
                                              ExchangeListener& listener) {
  return ConnectSharedMemory(layout, options, listener, {});
}

Network ConnectMemory(const TransportLayout& layout, WaitPolicy policy) {
  return ConnectAll(layout, policy, "unix:", JoinMemory);
}

}  // namespace janus::dataplane
