#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/fd.h"
#include "common/status.h"
#include "dataplane/comm/meeting.h"
#include "dataplane/comm/transport.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// Slots' payloads in the memory of the GPU that a member computes on, where its peers' GPUs read
// them in place: each member has the room of its slots a second time there, and maps its peers'.
// Messages are posted as ever; their payload is there before they are. Whether a member's payloads
// lie there or in the host's memory is the same for all its messages of an epoch: there, if all who
// read them have said that they have it mapped (meeting.h).
//
// Memory of one epoch, which no other's members can write; it is there as long as somebody has it
// mapped. Confined.
class DeviceSlots {
 public:
  // `shows`: with room for the slots of layout.self; without it, it but maps its peers'. Errors:
  // those of Context::TakeShared.
  static Result<std::unique_ptr<DeviceSlots>> Make(const TransportLayout& layout,
                                                   kernels::Context& context, bool shows = true);

  // Has the room offered to the peers that are met, and theirs mapped. It must outlive the meeting.
  void PutInto(Offer& offer);
  // What those have said that were met.
  void Conclude(const std::vector<Met>& met);

  // What peers map the room by; -1: there is none.
  int fd() const { return own_.fd.get(); }
  // Maps what a peer of the same layout has taken; one that has taken nothing, or where that fails,
  // is read in the host's memory: false. `fd`: unjudged.
  bool Map(PeerId peer, const Fd& fd);
  // Why a peer's memory is not mapped, with its name; the first. Empty: all are that have any.
  const std::string& refusal() const { return refusal_; }
  bool maps(PeerId peer) const { return peers_[IndexOf(peer)].data() != nullptr; }

  // Whether payloads of this member lie here.
  bool is_read_by_all() const { return is_read_by_all_; }

  // As addresses of the context's operations; 256-byte aligned, the bytes of its SlotSpec.
  std::byte* Own(int slot) const { return own_.buffer.data() + OffsetOf(layout_.self, slot); }
  // Of a peer that is mapped.
  const std::byte* Of(PeerId peer, int slot) const {
    return peers_[IndexOf(peer)].data() + OffsetOf(peer, slot);
  }

  // Bytes that a member takes of its GPU for this.
  static size_t BytesFor(const TransportLayout& layout, PeerId member);

 private:
  DeviceSlots(const TransportLayout& layout, kernels::Context& context);
  size_t IndexOf(PeerId peer) const;
  size_t OffsetOf(PeerId owner, int slot) const {
    return offsets_[IndexOf(owner)][static_cast<size_t>(slot)];
  }

  const TransportLayout layout_;
  kernels::Context& context_;
  std::vector<std::vector<size_t>> offsets_;  // by member, slot
  kernels::SharedMemory own_;
  std::vector<kernels::Buffer> peers_;  // by member
  std::string refusal_;
  bool is_read_by_all_ = false;
};

}  // namespace janus::dataplane
