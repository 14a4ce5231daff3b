#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>

namespace janus::dataplane::ucx {

// The kind of a message over UCX, encoded in its tag. A reader posts its receives by these tags, so
// that each message lands in its own memory.
enum class Channel : uint64_t {
  kSlot = 1,     // Header and payload of one of the sender's slots
  kControl = 2,  // Header and payload of a control message
  kCredit = 3,   // Credit: control messages read
  kGreeting = 4  // u64: phase of connecting
};

// `sender` is a member index, `slot` one of the sender's (kSlot).
constexpr ucp_tag_t TagOf(Channel channel, int sender, int slot = 0) {
  return static_cast<uint64_t>(channel) << 56 | static_cast<uint64_t>(sender) << 32 |
         static_cast<uint64_t>(slot);
}

}  // namespace janus::dataplane::ucx
