#pragma once

#include <cstddef>

#include "dataplane/comm/transport/device_slots.h"

namespace janus::dataplane {

// A member's reads over a network, as slow, or as wrong, as a test sets them.
class HeldUpReads final : public RemoteReads {
 public:
  explicit HeldUpReads(DeviceSlots& slots) : slots_(slots), under_(slots.ReadBy(this)) {}
  HeldUpReads(const HeldUpReads&) = delete;
  HeldUpReads& operator=(const HeldUpReads&) = delete;
  ~HeldUpReads() override { slots_.ReadBy(under_); }

  Status Begin(PeerId peer, int slot, size_t offset, size_t at, size_t of) override {
    ++begun;
    if (!begins) return failure;
    bytes += of;
    return under_->Begin(peer, slot, offset, at, of);
  }
  Result<bool> HasEnded(PeerId peer, int slot) override {
    if (!failure.ok()) return failure;
    return is_held_up ? false : under_->HasEnded(peer, slot);
  }
  bool Close() override { return true; }

  int begun = 0;
  size_t bytes = 0;
  bool is_held_up = true;
  Status failure;
  bool begins = true;  // false: a read fails at its beginning

 private:
  DeviceSlots& slots_;
  RemoteReads* const under_;
};

}  // namespace janus::dataplane
