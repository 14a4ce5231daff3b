#include <cstdlib>

#include "dataplane/comm/transport/ucx/transport.h"
#include "tests/support/networks.h"

namespace janus::dataplane {
namespace {

NetworkKind Kind(std::string name, std::string_view scheme, int domains, bool processes = false) {
  const Join join = JoinDomains(domains);
  return {std::move(name),
          [scheme, join](const TransportLayout& layout, WaitPolicy policy) {
            return ConnectAll(layout, policy, scheme, join);
          },
          processes ? join : nullptr};
}

std::string Variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

constexpr int kOneEach = 1 << 20;  // more domains than members

}  // namespace

Join JoinDomains(int domains) {
  return [domains](const TransportLayout& own, const ConnectOptions& options,
                   ExchangeListener& listener) {
    NetworkOptions network;
    network.connect = options;
    network.transports = Variable("JANUS_UCX_TRANSPORTS", "tcp");
    network.devices = Variable("JANUS_UCX_DEVICES", "lo");
    network.checks_datagrams = network.transports == "tcp";
    network.reads_devices = true;
    const int domain = MemberIndex(own, own.self) % domains;
    network.shares_memory = [&own, domain, domains](PeerId peer) {
      return MemberIndex(own, peer) % domains == domain;
    };
    return ConnectNetwork(own, network, listener, {});
  };
}

std::vector<NetworkKind> AllNetworks() {
  return {Kind("Ucx", "unix:", kOneEach, true), Kind("UcxMetOverTcp", "tcp:", kOneEach),
          Kind("OneDomain", "unix:", 1, true), Kind("TwoDomains", "both", 2),
          Kind("ThreeDomains", "unix:", 3)};
}

}  // namespace janus::dataplane
