#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "dataplane/comm/transport.h"

namespace janus::dataplane {

// The members of an epoch, connected with each other; by member index, attention first.
struct Network {
  TransportLayout layout;
  std::vector<std::unique_ptr<Transport>> members;
  std::shared_ptr<void> keep;

  Transport& attention(int rank) { return *members[static_cast<size_t>(rank)]; }
  Transport& experts(int rank) { return *members[static_cast<size_t>(layout.m + rank)]; }
};

// A way to connect members; the suite runs over all of them.
struct NetworkKind {
  std::string name;
  std::function<Network(const TransportLayout&)> connect;
};
inline void PrintTo(const NetworkKind& kind, std::ostream* out) {
  *out << kind.name;
}
std::vector<NetworkKind> AllNetworks();

}  // namespace janus::dataplane
