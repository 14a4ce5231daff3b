#include "tests/support/networks.h"

namespace janus::dataplane {

std::vector<NetworkKind> AllNetworks() {
  return {{"Loopback", ConnectLoopback, nullptr}, {"SharedMemory", ConnectMemory, JoinMemory}};
}

}  // namespace janus::dataplane
