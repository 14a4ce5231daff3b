#include "dataplane/comm/transport/segment.h"
#include "common/exchange_size.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace janus::dataplane {
namespace {

// Invariants: written - read <= kControlQueueDepth. Entry i of the ring belongs to the writer while
// i >= written, and to the reader while read <= i < written.
struct Queue {
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
  struct Entry {
    Header header;
    std::byte payload[kMaxControlBytes];
  };
  alignas(64) Entry entries[kControlQueueDepth];
};

// `sequence` counts posts. A release store to it publishes the header and payload written before.
// The payload follows the header directly, so that both can be sent as one message.
struct SlotHead {
  alignas(64) std::atomic<uint64_t> sequence;
  alignas(64) Header header;
};
static_assert(sizeof(SlotHead) == exchange_size::kSlotHead);

static_assert(sizeof(SegmentHeader) <= exchange_size::kSegmentHeader);
static_assert(AlignUp(sizeof(Queue)) == ControlQueueBytes());

constexpr size_t kQueuesOffset = exchange_size::kSegmentHeader;
constexpr size_t kQueueBytes = ControlQueueBytes();
constexpr size_t kHeadBytes = sizeof(SlotHead);
constexpr size_t kPage = exchange_size::kSegmentPage;

template <class T>
T* At(const Segment& segment, size_t offset) {
  return std::launder(reinterpret_cast<T*>(segment.base + offset));
}

}  // namespace

SegmentMap::SegmentMap(const TransportLayout& layout, PeerId owner) {
  size_t offset = kQueuesOffset + kQueueBytes * static_cast<size_t>(layout.m + layout.n);
  size_t flags = 0;
  for (const SlotSpec& slot : layout.slots) {
    if (slot.owner != owner) continue;
    JANUS_CHECK(slot.index == slots(), slot.owner, slot.index, slots());
    slot_offset_.push_back(offset);
    slot_bytes_.push_back(slot.bytes);
    offset += SlotBytes(slot.bytes);
  }
  for (const SlotSpec& slot : layout.slots_on_devices()) {
    if (slot.owner == owner) flags += kFlagStride * slot.readers.size();
  }
  for (const LandingSpec& piece : layout.landings) {
    if (piece.owner == owner) flags += kFlagStride * piece.mates.size();
  }
  flags_offset_ = AlignUp(offset, kPage);
  bytes_ = flags_offset_ + AlignUp(flags, kPage);
}

size_t SegmentMap::queue_offset(int reader_member) const {
  return kQueuesOffset + kQueueBytes * static_cast<size_t>(reader_member);
}

void InitSegment(const Segment& segment, const TransportLayout& layout) {
  const SegmentMap map(layout, layout.self);
  JANUS_CHECK(segment.bytes >= map.bytes(), segment.bytes, map.bytes());
  auto* header = new (segment.base) SegmentHeader;
  for (int member = 0; member < layout.m + layout.n; ++member) {
    auto* queue = new (segment.base + map.queue_offset(member)) Queue;
    queue->written.store(0, std::memory_order_relaxed);
    queue->read.store(0, std::memory_order_relaxed);
  }
  for (int slot = 0; slot < map.slots(); ++slot) {
    auto* head = new (segment.base + map.slot_offset(slot)) SlotHead;
    head->sequence.store(0, std::memory_order_relaxed);
  }
  std::memset(segment.base + map.flags_offset(), 0, map.flags_bytes());
  header->magic = kLayoutMagic;
  header->layout_hash = LayoutHash(layout);
  header->bytes = map.bytes();
}

Status CheckSegment(const Segment& segment, const TransportLayout& layout, PeerId owner) {
  const SegmentMap map(layout, owner);
  if (segment.bytes < map.bytes()) {
    return InvalidArgument("segment of " + ToString(owner) + ": " + std::to_string(segment.bytes) +
                           " bytes, the topology needs " + std::to_string(map.bytes()));
  }
  const auto* header = At<SegmentHeader>(segment, 0);
  if (header->magic != kLayoutMagic || header->layout_hash != LayoutHash(layout)) {
    return InvalidArgument("segment of " + ToString(owner) +
                           ": laid out for another topology; do all workers run one version?");
  }
  return OkStatus();
}

SegmentTransport::SegmentTransport(TransportLayout layout, uint64_t tag,
                                   std::vector<std::optional<Segment>> segments, WaitPolicy policy,
                                   std::unique_ptr<Liveness> liveness, std::string description)
    : layout_(std::move(layout)),
      tag_(tag),
      policy_(policy),
      liveness_(std::move(liveness)),
      description_(std::move(description)),
      self_(MemberIndex(layout_, layout_.self)) {
  JANUS_CHECK(segments.size() == static_cast<size_t>(layout_.m + layout_.n), segments.size());
  JANUS_CHECK(segments[static_cast<size_t>(self_)].has_value());
  members_.resize(segments.size());
  for (size_t i = 0; i < segments.size(); ++i) {
    if (!segments[i]) continue;
    members_[i].segment = std::move(segments[i]);
    members_[i].map.emplace(layout_, MemberAt(layout_, static_cast<int>(i)));
    members_[i].taken.assign(static_cast<size_t>(members_[i].map->slots()), 0);
  }
  for (const SlotSpec& slot : layout_.slots) {
    if (slot.owner != layout_.self) continue;
    std::vector<int>& readers = readers_.emplace_back();  // that share memory
    for (const PeerId& reader : slot.readers) {
      const int member = MemberIndex(layout_, reader);
      if (members_[static_cast<size_t>(member)].segment) readers.push_back(member);
    }
  }
}

SegmentHeader& SegmentTransport::head(int member) {
  const Member& m = members_[static_cast<size_t>(member)];
  JANUS_CHECK(m.segment.has_value(), "no connection to", MemberAt(layout_, member));
  return *At<SegmentHeader>(*m.segment, 0);
}

void SegmentTransport::Ring(int member) {
  SegmentHeader& peer = head(member);
  peer.bell.Ring();
  const int fd = members_[static_cast<size_t>(member)].segment->wake_fd;
  // A full socket already holds enough bytes to wake its reader. Wait reports a closed one.
  if (fd >= 0 && peer.parked.load(std::memory_order_seq_cst) != 0) {
    const char byte = 0;
    [[maybe_unused]] const ssize_t sent = send(fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

void SegmentTransport::SetParked(bool parked) {
  head(self_).parked.store(parked ? 1 : 0, std::memory_order_seq_cst);
}

std::span<std::byte> SegmentTransport::Message(int slot) {
  const std::span<std::byte> payload = Payload(slot);
  return {payload.data() - sizeof(Header), payload.size() + sizeof(Header)};
}

std::span<std::byte> SegmentTransport::Payload(int slot) {
  const Member& own = members_[static_cast<size_t>(self_)];
  return {own.segment->base + own.map->slot_offset(slot) + kHeadBytes, own.map->slot_bytes(slot)};
}

std::vector<std::span<std::byte>> SegmentTransport::PayloadMemory() {
  std::vector<std::span<std::byte>> memory;
  for (size_t i = 0; i < members_.size(); ++i) {
    const std::optional<Segment>& segment = members_[i].segment;
    const PeerId owner = MemberAt(layout_, static_cast<int>(i));
    const bool is_used = std::ranges::any_of(layout_.slots, [&](const SlotSpec& slot) {
      return slot.owner == owner &&
             (owner == layout_.self || std::ranges::count(slot.readers, layout_.self) > 0);
    });
    if (segment && is_used) memory.emplace_back(segment->base, segment->bytes);
  }
  return memory;
}

std::span<std::byte> SegmentTransport::FlagsOf(PeerId owner) {
  const Member& member = members_[static_cast<size_t>(MemberIndex(layout_, owner))];
  if (!member.segment) return {};
  return {member.segment->base + member.map->flags_offset(), member.map->flags_bytes()};
}

Status SegmentTransport::Post(int slot, const Header& header) {
  const Member& own = members_[static_cast<size_t>(self_)];
  JANUS_CHECK(header.bytes <= own.map->slot_bytes(slot), header.bytes, own.map->slot_bytes(slot));
  auto* head = At<SlotHead>(*own.segment, own.map->slot_offset(slot));
  head->header = header;
  head->header.tag = tag_;
  head->sequence.store(head->sequence.load(std::memory_order_relaxed) + 1,
                       std::memory_order_release);
  for (const int reader : readers_[static_cast<size_t>(slot)]) Ring(reader);
  return OkStatus();
}

bool SegmentTransport::Take(PeerId from, int slot, SlotMessage& message) {
  Member& peer = members_[static_cast<size_t>(MemberIndex(layout_, from))];
  const size_t offset = peer.map->slot_offset(slot);
  const auto* head = At<SlotHead>(*peer.segment, offset);
  const uint64_t sequence = head->sequence.load(std::memory_order_acquire);
  uint64_t& taken = peer.taken[static_cast<size_t>(slot)];
  if (sequence == taken) return false;
  taken = sequence;
  message.header = head->header;
  if (message.header.tag != tag_ || message.header.bytes > peer.map->slot_bytes(slot)) {
    ++dropped_;
    return false;
  }
  message.payload = {peer.segment->base + offset + kHeadBytes, message.header.bytes};
  return true;
}

Status SegmentTransport::Send(PeerId to, const Header& header, std::span<const std::byte> payload) {
  JANUS_CHECK(payload.size() <= kMaxControlBytes, payload.size());
  const int member = MemberIndex(layout_, to);
  const Member& own = members_[static_cast<size_t>(self_)];
  auto* queue = At<Queue>(*own.segment, own.map->queue_offset(member));
  const uint64_t written = queue->written.load(std::memory_order_relaxed);
  if (written - queue->read.load(std::memory_order_acquire) >= kControlQueueDepth) {
    return ResourceExhausted(ToString(to) + " has " + std::to_string(kControlQueueDepth) +
                             " unread control messages of " + ToString(layout_.self));
  }
  Queue::Entry& entry = queue->entries[written % kControlQueueDepth];
  entry.header = header;
  entry.header.tag = tag_;
  entry.header.bytes = payload.size();
  if (!payload.empty()) std::memcpy(entry.payload, payload.data(), payload.size());
  queue->written.store(written + 1, std::memory_order_release);
  Ring(member);
  return OkStatus();
}

bool SegmentTransport::Receive(PeerId from, Header& header, std::vector<std::byte>& payload) {
  Member& peer = members_[static_cast<size_t>(MemberIndex(layout_, from))];
  if (!peer.segment) return false;
  auto* queue = At<Queue>(*peer.segment, peer.map->queue_offset(self_));
  const uint64_t written = queue->written.load(std::memory_order_acquire);
  if (written - peer.received > kControlQueueDepth) {
    // Our writers never do that. Skip everything in the ring, because it is not in order.
    peer.received = written;
    ++dropped_;
  }
  while (peer.received != written) {
    const Queue::Entry& entry = queue->entries[peer.received % kControlQueueDepth];
    // Check the copy, because the writer can still change the original.
    header = entry.header;
    const bool good = header.tag == tag_ && header.bytes <= kMaxControlBytes;
    if (good) payload.assign(entry.payload, entry.payload + header.bytes);
    queue->read.store(++peer.received, std::memory_order_release);
    if (good) return true;
    ++dropped_;
  }
  return false;
}

Status SegmentTransport::Wait(MonotonicTime deadline, FunctionRef<bool()> ready) {
  constexpr auto kLivenessInterval = std::chrono::milliseconds(100);
  for (;;) {
    const MonotonicTime slice = std::min(deadline, MonotonicClock::now() + kLivenessInterval);
    if (WaitFor(bell(self_), policy_, slice, ready)) return OkStatus();
    if (liveness_ != nullptr) JANUS_RETURN_IF_ERROR(liveness_->Check());
    if (slice == deadline) return DeadlineExceeded("nothing came in time");
  }
}

void SegmentTransport::Wake() {
  bell(self_).Ring();
}

}  // namespace janus::dataplane
