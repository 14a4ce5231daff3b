#pragma once

#include <cstddef>

#include "common/status.h"
#include "dataplane/comm/transport/transport.h"

namespace janus::dataplane {

// Reads of what peers show of their devices' memory (device_slots.h), over a network, into the
// landing memory of this member's device. Confined, as the transport that has it.
class RemoteReads {
 public:
  virtual ~RemoteReads() = default;

  // Begins to read `bytes` from `offset` on of what `peer` shows, to `at` of the landing memory.
  // One at a time for each of the peer's slots. Neither piece may change until it has ended.
  // Unavailable: the peer cannot be read.
  virtual Status Begin(PeerId peer, int slot, size_t offset, size_t at, size_t bytes) = 0;
  // Whether the slot's last one has. Unavailable: it has failed.
  virtual Result<bool> HasEnded(PeerId peer, int slot) = 0;
  // Ends all, and forgets the memory, whose owner goes; with it the connections. False: some has
  // not ended in a moment, and may write for ever.
  virtual bool Close() = 0;
};

}  // namespace janus::dataplane
