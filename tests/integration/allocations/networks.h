#pragma once

#include "tests/support/networks.h"

namespace janus::dataplane {

inline std::vector<NetworkKind> EveryNetwork() {
  std::vector<NetworkKind> kinds = {{"Loopback", ConnectLoopback, nullptr},
                                    {"SharedMemory", ConnectMemory, nullptr}};
  for (NetworkKind& kind : AllNetworks()) kinds.push_back(std::move(kind));
  return kinds;
}

}  // namespace janus::dataplane
