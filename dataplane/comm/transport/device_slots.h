#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/fd.h"
#include "common/status.h"
#include "dataplane/comm/handshake/handshake.h"
#include "dataplane/comm/transport/remote_reads.h"
#include "dataplane/comm/transport/transport.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// Payloads of slots in the memory of the GPU that a member computes on. Each member allocates its
// slots a second time there. Peers on the same machine map this memory, and their GPUs read it in
// place. For other peers a network copies it into their GPUs' memory, if both ends support that
// (remote_reads.h). In one epoch all payloads of a member lie either here or in host memory. They
// lie here if all their readers have reported that they can read it (handshake.h, ucx/transport.h).
//
// If all readers map the memory, the owner posts a payload before its GPU has written it. When the
// payload is written, the owner's stream sets the slot's flags (Transport::FlagsOf) to the number
// of the round. The readers' streams wait for that number. Therefore hosts run ahead of their GPUs,
// and no GPU waits for a message between hosts. Round numbers grow within an epoch. A member that
// gives up a round lets its stream run to the end on whatever data lies there (LetGo). No member
// uses the result: the next round has a higher number, and no member begins it before all have let
// go (docs/steps.md).
//
// A slot may land once for all instances of a node (LandingSpec). One of them reads it over the
// network. Its stream then sets a flag of each mate (SignalLanded), whose stream waits for it.
//
// The memory belongs to one epoch, and members of another epoch cannot write it. It is freed when
// no process maps it any more. Confined.
class DeviceSlots {
 public:
  // `shows`: true allocates room for the slots of layout.self; false only reads the peers' slots.
  // Errors: those of Context::AllocateShared and Context::RegisterFlags.
  static Result<std::unique_ptr<DeviceSlots>> Make(const TransportLayout& layout,
                                                   kernels::Context& context, bool shows = true);

  // For peers on other machines: allocates the landing memory for their payloads, if this member
  // needs any. Call it before PutInto. Errors: those of Context::AllocateShared.
  Status AllocateLanding();
  // Offers the room to the peers in the handshake, and the landing memory to mates, and maps
  // theirs. It must outlive the handshake.
  void PutInto(Offer& offer);
  // Opens both to the network; either may be empty. Call it before peers get to know the room.
  // Errors: those of Context::RegisterForNetwork; after an error nothing is open.
  Status OpenToNetwork();
  std::span<std::byte> RegisteredForNetwork() const {
    return {own_on_network_.data(), own_on_network_.size()};
  }
  std::span<std::byte> LandingOfNetwork() const {
    return {landing_on_network_.data(), landing_on_network_.size()};
  }
  kernels::NetworkMemory network_memory() const { return context_.network_memory(); }
  // A peer checks these bytes to verify that it really reads our room. They lie at its beginning
  // until the first round. They are as long as the smallest slot, because a network moves shorter
  // pieces in another way than rows. WriteProof waits for the device.
  static constexpr size_t kProofBytes = 256;
  Status WriteProof(uint64_t proof);
  // Whether the landing memory begins with a peer's proof. Waits for the device.
  Result<bool> HasLanded(uint64_t proof);
  // Sets the object that reads over the network from now on, until Close; null: none. Returns the
  // previous one.
  RemoteReads* ReadBy(RemoteReads* reads) { return std::exchange(reads_, reads); }
  // The peer's room was read over the network once, and is read so from now on: by this member, or
  // by a mate whose landing memory it maps.
  void ReadsRemotely(PeerId peer) { remote_[IndexOf(peer)] = true; }
  // The instance of this member's node in whose landing memory the peer's payloads land; the member
  // itself if the layout has no landings.
  PeerId ReaderOf(PeerId peer) const;
  // Whether it maps that memory of a mate.
  bool MapsLanding(PeerId mate) const { return mates_[IndexOf(mate)].data() != nullptr; }
  // Notes why nothing is read over the network; the first reason stays.
  void NoteRefusal(const std::string& why) {
    if (refusal_.empty()) refusal_ = why;
  }

  // Sets the peers that read this memory: in place, or over a network.
  void Conclude(const std::vector<PeerId>& in_place, const std::vector<PeerId>& remotely);

  ~DeviceSlots() { Close(); }

  // The descriptor by which peers map the room; -1: this member has no room.
  int fd() const { return own_.fd.get(); }
  // Maps the memory that a peer of the same layout offers: its slots, or a mate's landing memory.
  // False: it offers none that this member reads, or mapping fails; payloads are then read in host
  // memory. `fd`: unchecked.
  bool Map(PeerId peer, const Fd& fd);
  // Why the first unmapped peer's memory is not mapped, with its name. Empty: no mapping failed.
  const std::string& refusal() const { return refusal_; }
  bool maps(PeerId peer) const { return peers_[IndexOf(peer)].data() != nullptr; }
  bool reads_remotely(PeerId peer) const { return remote_[IndexOf(peer)]; }

  // Whether payloads of this member lie here.
  bool is_read_by_all() const { return is_read_by_all_; }
  // Whether one of the readers reads over a network. Then messages to all readers wait for the
  // device.
  bool is_read_remotely() const { return is_read_remotely_; }

  // Addresses for operations of the context; 256-byte aligned, with the bytes of its SlotSpec.
  std::byte* Own(int slot) const { return own_.buffer.data() + OffsetOf(layout_.self, slot); }
  // The slot of a peer that is mapped, or where it lands for this member's node.
  const std::byte* Of(PeerId peer, int slot) const;
  // Whether it is there once its message has come: it is mapped, or lands for the node.
  bool IsInPlace(PeerId peer, int slot) const {
    return maps(peer) || LandingFor(peer, slot) != nullptr;
  }

  // Finds the flags in `transport`, which was connected with this object. Call it before the first
  // round; `transport` must live until Close. Errors: those of Context::RegisterFlags.
  Status Open(Transport& transport);
  // No more rounds, and no more reads over a network.
  void Close();
  // Queued: once all earlier work has run, signals the readers of an own slot that the round's
  // payload is there.
  Status Signal(int slot, uint64_t round);
  // Adds a peer's slot to those that StreamWaitPeers waits for.
  void Await(PeerId peer, int slot, uint64_t round);
  // Queued: work queued from now on runs once the payloads added by Await since the last call are
  // there.
  Status StreamWaitPeers();
  // Begins to read a message of a peer for which ReadsRemotely was called, to `at` of the landing
  // memory. The previous content there must not be in use, and the peer must not change the slot
  // until the read has ended.
  Status Read(PeerId peer, int slot, size_t bytes, size_t at);
  // Whether that read has ended. Then work queued after StreamWaitPeers finds the payload at
  // Landing.
  Result<bool> HasRead(PeerId peer, int slot);
  const std::byte* Landing(size_t at) const { return landing_.buffer.data() + at; }
  // Whether every read has ended, successfully or not.
  bool HasReadAll();
  // Whether this member reads the slot over the network for its node.
  bool ReadsForNode(PeerId peer, int slot) const;
  // Read, to the place of such a slot. A mate may still read the previous content only if the peer
  // could not have posted the slot's message then.
  Status ReadForNode(PeerId peer, int slot, size_t bytes);
  // Queued: signals the mates that such slots, whose reads have ended, have landed.
  Status SignalLanded(std::span<const PeerId> peers, int slot, uint64_t round);
  // Whether a payload has been written, or has landed here, by now. True if no flag tells.
  bool IsThere(PeerId peer, int slot, uint64_t round) const;
  // Stops the stream's waits for peers. True once it has run all work queued for rounds; until then
  // the caller repeats the call. Also true if the device has failed, which the next call to it
  // reports.
  bool LetGo();

  // Bytes of GPU memory that a member needs for its slots.
  static size_t BytesFor(const TransportLayout& layout, PeerId member);

 private:
  DeviceSlots(const TransportLayout& layout, kernels::Context& context);
  size_t IndexOf(PeerId peer) const;
  size_t OffsetOf(PeerId owner, int slot) const {
    return offsets_[IndexOf(owner)][static_cast<size_t>(slot)];
  }

  // The flag that this member reads for the slot; null: none.
  kernels::Flag* FlagOf(PeerId peer, int slot) const;
  const LandingSpec* LandingFor(PeerId peer, int slot) const {
    const int at = landing_of_[IndexOf(peer)][static_cast<size_t>(slot)];
    return at < 0 ? nullptr : &layout_.landings[static_cast<size_t>(at)];
  }
  Status RegisterFlags(PeerId owner, std::span<std::byte> flags);
  // How network devices write to the landing memory.
  kernels::NetworkUse landing_use() const {
    return landing_is_shared_ ? kernels::NetworkUse::kWritesForAll : kernels::NetworkUse::kWrites;
  }

  const TransportLayout layout_;
  kernels::Context& context_;
  std::vector<std::vector<size_t>> offsets_;  // by member, slot
  kernels::SharedMemory own_;
  // By member, slot: the landing for this member's node, of layout_.landings; -1: none.
  std::vector<std::vector<int>> landing_of_;
  bool landing_is_shared_ = false;      // with mates
  std::vector<kernels::Buffer> peers_;  // by member: its slots
  std::vector<kernels::Buffer> mates_;  // by member: its landing memory
  std::string refusal_;
  bool is_read_by_all_ = false;
  bool is_read_remotely_ = false;

  kernels::SharedMemory landing_;
  kernels::Buffer own_on_network_;
  kernels::Buffer landing_on_network_;
  std::vector<bool> remote_;                   // by member: ReadsRemotely
  RemoteReads* reads_ = nullptr;               // null: there is no network
  std::vector<std::pair<PeerId, int>> begun_;  // reads of slots that have not ended
  bool has_landed_ = false;                    // some since the last StreamWaitPeers

  std::vector<kernels::Buffer> registered_flags_;       // by member; empty: none here
  std::vector<std::vector<kernels::Flag*>> signalled_;  // by own slot
  std::vector<std::vector<kernels::Flag*>> read_;       // by member, slot; null: not read by us
  // By landing: the mates' flags if it is ours, our flag if we are a mate, else none.
  std::vector<std::vector<kernels::Flag*>> landed_;
  std::vector<kernels::FlagCount> signals_;  // of one call
  std::vector<kernels::FlagCount> awaited_;
  uint64_t newest_ = 0;                  // highest round number passed to Await
  std::unique_ptr<kernels::Event> end_;  // of the work queued when LetGo was first called
  bool is_letting_go_ = false;
  bool has_let_go_ = true;  // no round since the last LetGo
};

}  // namespace janus::dataplane
