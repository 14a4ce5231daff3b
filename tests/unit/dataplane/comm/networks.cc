#include "tests/unit/dataplane/comm/networks.h"

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "dataplane/comm/loopback.h"
#include "dataplane/comm/segment.h"
#include "dataplane/comm/shared_memory.h"

namespace janus::dataplane {
namespace {

Network ConnectLoopback(const TransportLayout& layout) {
  Network network;
  network.layout = layout;
  LoopbackNetwork loopback(layout);
  for (int member = 0; member < layout.m + layout.n; ++member) {
    network.members.push_back(loopback.Connect(MemberAt(layout, member), WaitPolicy()));
  }
  return network;
}

// Sockets in a folder of their own, which goes with the network.
struct Sockets {
  Sockets() {
    std::string name = (std::filesystem::temp_directory_path() / "janus-comm-XXXXXX").string();
    JANUS_CHECK(mkdtemp(name.data()) != nullptr, name);
    folder = name;
  }
  ~Sockets() {
    listeners.clear();
    std::filesystem::remove_all(folder);
  }
  std::string folder;
  std::vector<std::unique_ptr<ExchangeListener>> listeners;
};

Network ConnectMemory(const TransportLayout& layout) {
  const auto sockets = std::make_shared<Sockets>();
  const int members = layout.m + layout.n;
  for (int member = 0; member < members; ++member) {
    sockets->listeners.push_back(
        std::move(*ExchangeListener::Create(sockets->folder + "/" + std::to_string(member))));
  }
  SharedMemoryOptions options;
  options.epoch = 1;
  options.tag = 77;
  options.config_hash = "same";
  options.deadline = MonotonicClock::now() + std::chrono::seconds(20);
  for (int a = 0; a < layout.m; ++a) {
    options.attention_paths.push_back(sockets->listeners[static_cast<size_t>(a)]->path());
  }
  Network network;
  network.layout = layout;
  network.members.resize(static_cast<size_t>(members));
  network.keep = sockets;
  std::vector<std::jthread> threads;
  for (int member = 0; member < members; ++member) {
    threads.emplace_back([&, member] {
      TransportLayout own = layout;
      own.self = MemberAt(layout, member);
      auto connected = ConnectSharedMemory(
          own, options, *sockets->listeners[static_cast<size_t>(member)], std::stop_token());
      JANUS_CHECK(connected.ok(), connected.status().ToString());
      network.members[static_cast<size_t>(member)] = std::move(*connected);
    });
  }
  threads.clear();
  return network;
}

}  // namespace

std::vector<NetworkKind> AllNetworks() {
  return {{"Loopback", ConnectLoopback}, {"SharedMemory", ConnectMemory}};
}

}  // namespace janus::dataplane
