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
    std::vector<int> domain_of;
    for (int member = 0; member < own.m + own.n; ++member) domain_of.push_back(member % domains);
    return JoinDomainsOf(std::move(domain_of))(own, options, listener);
  };
}

Join JoinDomainsOf(std::vector<int> domain_of) {
  return
      [domain_of = std::move(domain_of)](const TransportLayout& own, const ConnectOptions& options,
                                         ExchangeListener& listener) {
        NetworkOptions network;
        network.connect = options;
        network.transports = Variable("JANUS_UCX_TRANSPORTS", "tcp");
        network.devices = Variable("JANUS_UCX_DEVICES", "lo");
        network.checks_datagrams = network.transports == "tcp";
        network.reads_devices = true;
        network.shares_memory = [&](PeerId peer) {
          return domain_of[static_cast<size_t>(MemberIndex(own, peer))] ==
                 domain_of[static_cast<size_t>(MemberIndex(own, own.self))];
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
