#pragma once

#include <cstddef>

#include "common/status.h"
#include "dataplane/comm/transport/transport.h"

namespace janus::dataplane {

// Reads, over a network, of the GPU memory that peers show (device_slots.h), into the landing
// memory of this member's GPU. Confined to the thread of its transport.
class RemoteReads {
 public:
  virtual ~RemoteReads() = default;

  // Begins to read `bytes` at `offset` of the memory that `peer` shows, to `at` of the landing
  // memory. Only one read at a time for each slot of the peer. Source and destination must not
  // change until the read has ended. Unavailable: the peer cannot be read.
  virtual Status Begin(PeerId peer, int slot, size_t offset, size_t at, size_t bytes) = 0;
  // Whether the slot's last read has ended. Unavailable: it failed.
  virtual Result<bool> HasEnded(PeerId peer, int slot) = 0;
  // Ends all reads, closes the connections and forgets the memory, because its owner frees it.
  // False: a read has not ended within a moment, and may write at any later time.
  virtual bool Close() = 0;
};

}  // namespace janus::dataplane
