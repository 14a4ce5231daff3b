#pragma once

#include <cstdint>
#include <memory>
#include <span>
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
// Whether a member's payloads lie there or in the host's memory is the same for all its messages of
// an epoch: there, if all who read them have said that they have it mapped (meeting.h).
//
// Such a payload is posted before it is there: its owner's stream raises the slot's flags
// (Transport::FlagsOf) to the number of the round once it is, and the streams of its readers wait
// for that. So hosts are ahead of their GPUs, and their messages on no path that a GPU waits for.
// Numbers of rounds grow within an epoch. A member that gives up a round lets its own stream run to
// its end on whatever lies there (LetGo): nothing of that is taken for a result, since what it
// posts anew has a higher number, and nobody goes on before all have let go (docs/steps.md).
//
// Memory of one epoch, which no other's members can write; it is there as long as somebody has it
// mapped. Confined.
class DeviceSlots {
 public:
  // `shows`: with room for the slots of layout.self; without it, it but maps its peers'. Errors:
  // those of Context::TakeShared and Context::ShowFlags.
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

  // Finds the flags of the transport that was connected with it, before the first round; it is
  // there until Close, or outlives this. Errors: those of Context::ShowFlags.
  Status Open(Transport& transport);
  // No more rounds.
  void Close();
  // Queued: once everything before has run, the readers of an own slot have the round's payload.
  Status Raise(int slot, uint64_t round);
  // A peer's slot that FollowPeers is to wait for.
  void Await(PeerId peer, int slot, uint64_t round);
  // Queued: what is queued from now on runs once the payloads that were awaited since are there.
  Status FollowPeers();
  // Whether a payload is there by now.
  bool IsThere(PeerId peer, int slot, uint64_t round) const;
  // Whether the stream has run what was queued for rounds; of a member that waits for peers no
  // more. Asked again until then. True where the device has failed, which its next call tells.
  bool LetGo();

  // Bytes that a member takes of its GPU for this.
  static size_t BytesFor(const TransportLayout& layout, PeerId member);

 private:
  DeviceSlots(const TransportLayout& layout, kernels::Context& context);
  size_t IndexOf(PeerId peer) const;
  size_t OffsetOf(PeerId owner, int slot) const {
    return offsets_[IndexOf(owner)][static_cast<size_t>(slot)];
  }

  kernels::Flag* FlagOf(PeerId peer, int slot) const {
    return read_[IndexOf(peer)][static_cast<size_t>(slot)];
  }

  const TransportLayout layout_;
  kernels::Context& context_;
  std::vector<std::vector<size_t>> offsets_;  // by member, slot
  kernels::SharedMemory own_;
  std::vector<kernels::Buffer> peers_;  // by member
  std::string refusal_;
  bool is_read_by_all_ = false;

  std::vector<kernels::Buffer> shown_;               // flags, of every member with any here
  std::vector<std::vector<kernels::Flag*>> raised_;  // by own slot
  std::vector<std::vector<kernels::Flag*>> read_;    // by member, slot; null: not read by us
  std::vector<kernels::FlagCount> raising_;          // of one call
  std::vector<kernels::FlagCount> awaited_;
  uint64_t newest_ = 0;                  // round that was awaited
  std::unique_ptr<kernels::Event> end_;  // of what was queued when LetGo was asked
  bool is_letting_go_ = false;
  bool has_let_go_ = true;  // no round since
};

}  // namespace janus::dataplane
