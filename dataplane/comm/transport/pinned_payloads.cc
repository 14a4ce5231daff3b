#include "dataplane/comm/transport/pinned_payloads.h"

#include <utility>

namespace janus::dataplane {

Result<std::vector<kernels::Buffer>> PinPayloads(Transport& transport, kernels::Context& context) {
  std::vector<kernels::Buffer> pinned;
  if (context.is_host()) return pinned;
  for (const std::span<std::byte> memory : transport.PayloadMemory()) {
    JANUS_ASSIGN_OR_RETURN(kernels::Buffer one, context.Pin(memory.data(), memory.size()));
    pinned.push_back(std::move(one));
  }
  return pinned;
}

}  // namespace janus::dataplane
