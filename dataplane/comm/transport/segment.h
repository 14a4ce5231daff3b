#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "dataplane/comm/transport/transport.h"

namespace janus::dataplane {

// The memory one member shows to the others. Layout: SegmentHeader; one control queue per member of
// the epoch, in member order; the owner's slots, each a SlotHead and its payload; then,
// page-aligned, the flags (Transport::FlagsOf). The owner writes slots and queues. Readers write
// only their queue's `read` count, their flags and, to wake the owner, its doorbell.
struct SegmentHeader {
  uint64_t magic = 0;
  uint64_t layout_hash = 0;
  uint64_t bytes = 0;
  Doorbell bell;  // rung by a member that has posted something for the owner
  // 1 while the owner sleeps on files: a member that rings also writes a byte into the pair's
  // socket.
  std::atomic<uint32_t> parked{0};
};

// A mapped segment and what keeps it mapped.
struct Segment {
  std::byte* base = nullptr;
  size_t bytes = 0;
  std::shared_ptr<void> keep;
  int wake_fd = -1;  // the pair's socket; -1 if no member sleeps on files
};

// The offsets of all parts in one member's segment.
class SegmentMap {
 public:
  SegmentMap(const TransportLayout& layout, PeerId owner);

  size_t bytes() const { return bytes_; }
  size_t queue_offset(int reader_member) const;
  size_t slot_offset(int slot) const { return slot_offset_.at(static_cast<size_t>(slot)); }
  size_t slot_bytes(int slot) const { return slot_bytes_.at(static_cast<size_t>(slot)); }
  int slots() const { return static_cast<int>(slot_offset_.size()); }
  size_t flags_offset() const { return flags_offset_; }
  size_t flags_bytes() const { return bytes_ - flags_offset_; }

 private:
  std::vector<size_t> slot_offset_;
  std::vector<size_t> slot_bytes_;
  size_t flags_offset_ = 0;
  size_t bytes_ = 0;
};

// Zeroes and stamps a segment that its owner has allocated.
void InitSegment(const Segment& segment, const TransportLayout& layout);
// InvalidArgument: too small, wrong magic or another layout.
Status CheckSegment(const Segment& segment, const TransportLayout& layout, PeerId owner);

// Checks whether a peer is still there; called about ten times a second while waiting.
class Liveness {
 public:
  virtual ~Liveness() = default;
  virtual Status Check() = 0;  // Unavailable naming the peer that is gone
};

// Transport over segments that all members have mapped, in one process (loopback) or several.
class SegmentTransport final : public Transport {
 public:
  // segments: by member index; absent if the pair never exchanges messages (expert instances of
  // different nodes).
  SegmentTransport(TransportLayout layout, uint64_t tag,
                   std::vector<std::optional<Segment>> segments, WaitPolicy policy,
                   std::unique_ptr<Liveness> liveness, std::string description);

  const TransportLayout& layout() const override { return layout_; }
  std::span<std::byte> Payload(int slot) override;
  Status Post(int slot, const Header& header) override;
  bool Take(PeerId from, int slot, SlotMessage& message) override;
  bool Settle() override { return true; }  // a message is there as soon as it is posted
  Status Send(PeerId to, const Header& header, std::span<const std::byte> payload) override;
  bool Receive(PeerId from, Header& header, std::vector<std::byte>& payload) override;
  Status Wait(MonotonicTime deadline, FunctionRef<bool()> ready) override;
  void Wake() override;
  uint64_t dropped() const override { return dropped_; }
  std::span<std::byte> FlagsOf(PeerId owner) override;
  std::vector<std::span<std::byte>> PayloadMemory() override;
  std::string_view Describe(PeerId) const override { return description_; }

  // For a transport that carries some pairs by other means: it serves the readers that have no
  // segment here. Returns the slot's header, as Post stamped it, with its payload right behind.
  std::span<std::byte> Message(int slot);
  uint64_t tag() const { return tag_; }
  // Announces that the owner sleeps on files. Sequentially consistent: a ring after it also writes
  // to the socket.
  void SetParked(bool parked);
  Doorbell& own_bell() { return bell(self_); }

 private:
  struct Member {
    std::optional<Segment> segment;
    std::optional<SegmentMap> map;
    // Reads are counted here too, because the peer may write anything into its own memory.
    std::vector<uint64_t> taken;  // per slot: sequence of the last message taken
    uint64_t received = 0;        // control messages
  };

  SegmentHeader& head(int member);
  Doorbell& bell(int member) { return head(member).bell; }
  void Ring(int member);

  const TransportLayout layout_;
  const uint64_t tag_;
  const WaitPolicy policy_;
  const std::unique_ptr<Liveness> liveness_;
  const std::string description_;
  const int self_;
  std::vector<Member> members_;
  std::vector<std::vector<int>> readers_;  // per own slot: members with a segment here
  uint64_t dropped_ = 0;
};

}  // namespace janus::dataplane
