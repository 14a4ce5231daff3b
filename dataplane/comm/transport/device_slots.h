#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/fd.h"
#include "common/status.h"
#include "dataplane/comm/handshake/meeting.h"
#include "dataplane/comm/transport/remote_reads.h"
#include "dataplane/comm/transport/transport.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// Slots' payloads in the memory of the GPU that a member computes on, where its peers read them:
// each member has the room of its slots a second time there. Peers of its machine map it, and their
// GPUs read in place; a network brings others what they read into memory of their GPUs, where both
// its ends reach such memory (remote_reads.h). Whether a member's payloads lie there or in the
// host's memory is the same for all its messages of an epoch: there, if all who read them have said
// that they can (meeting.h, ucx/transport.h).
//
// Where all readers map it, a payload is posted before it is there: its owner's stream raises the
// slot's flags (Transport::FlagsOf) to the number of the round once it is, and the streams of its
// readers wait for that. So hosts are ahead of their GPUs, and their messages on no path that a GPU
// waits for. Numbers of rounds grow within an epoch. A member that gives up a round lets its own
// stream run to its end on whatever lies there (LetGo): nothing of that is taken for a result,
// since what it posts anew has a higher number, and nobody goes on before all have let go
// (docs/steps.md).
//
// Memory of one epoch, which no other's members can write; it is there as long as somebody has it
// mapped. Confined.
class DeviceSlots {
 public:
  // `shows`: with room for the slots of layout.self; without it, it but reads its peers'. Errors:
  // those of Context::TakeShared and Context::ShowFlags.
  static Result<std::unique_ptr<DeviceSlots>> Make(const TransportLayout& layout,
                                                   kernels::Context& context, bool shows = true);

  // Has the room offered to the peers that are met, and theirs mapped. It must outlive the meeting.
  void PutInto(Offer& offer);
  // For peers of other machines: what a network reads of this member's room, and the memory it
  // brings theirs to; either may be empty. Before peers are told of them. Errors: those of
  // Context::TakeShared and Context::ShowToNetwork; nothing is open then.
  Status OpenToNetwork();
  std::span<std::byte> SeenByNetwork() const {
    return {own_on_network_.data(), own_on_network_.size()};
  }
  std::span<std::byte> LandingOfNetwork() const {
    return {landing_on_network_.data(), landing_on_network_.size()};
  }
  kernels::NetworkMemory network_memory() const { return context_.network_memory(); }
  // A peer knows by it whether it has read our room indeed: its first bytes until the first round,
  // as many as a slot has at least, for few would go another way than rows do. Waits for the
  // device.
  static constexpr size_t kProofBytes = 256;
  Status ShowProof(uint64_t proof);
  // Whether the landing memory begins with a peer's. Waits for the device.
  Result<bool> HasLanded(uint64_t proof);
  // Who reads for it from now on, until Close or null; who did.
  RemoteReads* ReadBy(RemoteReads* reads) { return std::exchange(reads_, reads); }
  // The peer's room was read over the network and is from now on.
  void ReadsRemotely(PeerId peer) { remote_[IndexOf(peer)] = true; }
  // Why nothing is read over the network, with the first reason.
  void NoteRefusal(const std::string& why) {
    if (refusal_.empty()) refusal_ = why;
  }

  // Who has said that it reads what lies here: in place, or over a network.
  void Conclude(const std::vector<PeerId>& in_place, const std::vector<PeerId>& remotely);

  ~DeviceSlots() { Close(); }

  // What peers map the room by; -1: there is none.
  int fd() const { return own_.fd.get(); }
  // Maps what a peer of the same layout has taken; one that has taken nothing, or where that fails,
  // is read in the host's memory: false. `fd`: unjudged.
  bool Map(PeerId peer, const Fd& fd);
  // Why a peer's memory is not mapped, with its name; the first. Empty: all are that have any.
  const std::string& refusal() const { return refusal_; }
  bool maps(PeerId peer) const { return peers_[IndexOf(peer)].data() != nullptr; }
  bool reads_remotely(PeerId peer) const { return remote_[IndexOf(peer)]; }

  // Whether payloads of this member lie here.
  bool is_read_by_all() const { return is_read_by_all_; }
  // Whether one of their readers, which then all have to wait for the device, does over a network.
  bool is_read_remotely() const { return is_read_remotely_; }

  // As addresses of the context's operations; 256-byte aligned, the bytes of its SlotSpec.
  std::byte* Own(int slot) const { return own_.buffer.data() + OffsetOf(layout_.self, slot); }
  // Of a peer that is mapped.
  const std::byte* Of(PeerId peer, int slot) const {
    return peers_[IndexOf(peer)].data() + OffsetOf(peer, slot);
  }

  // Finds the flags of the transport that was connected with it, before the first round; it is
  // there until Close, or outlives this. Errors: those of Context::ShowFlags.
  Status Open(Transport& transport);
  // No more rounds, and nobody reads for it any more.
  void Close();
  // Queued: once everything before has run, the readers of an own slot have the round's payload.
  Status Raise(int slot, uint64_t round);
  // A peer's slot that FollowPeers is to wait for.
  void Await(PeerId peer, int slot, uint64_t round);
  // Queued: what is queued from now on runs once the payloads that were awaited since are there.
  Status FollowPeers();
  // Begins to read what a peer of ReadsRemotely has posted, to `at` of the landing memory. What
  // lay there nobody may read any more, nor the peer change the slot until it has ended.
  Status Read(PeerId peer, int slot, size_t bytes, size_t at);
  // Whether it has: then what is queued after FollowPeers finds it at Landing.
  Result<bool> HasRead(PeerId peer, int slot);
  const std::byte* Landing(size_t at) const { return landing_.buffer.data() + at; }
  // Whether every read has ended, well or not.
  bool HasReadAll();
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
  bool is_read_remotely_ = false;

  kernels::SharedMemory landing_;
  kernels::Buffer own_on_network_;
  kernels::Buffer landing_on_network_;
  std::vector<bool> remote_;                   // by member: read over the network
  RemoteReads* reads_ = nullptr;               // null: there is no network
  std::vector<std::pair<PeerId, int>> begun_;  // reads of slots that have not ended
  bool has_landed_ = false;                    // some since the last FollowPeers

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
