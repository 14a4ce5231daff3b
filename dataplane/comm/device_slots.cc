#include "dataplane/comm/device_slots.h"

#include <algorithm>

#include "dataplane/comm/segment.h"

namespace janus::dataplane {
namespace {

constexpr size_t kAlignment = 256;  // of what a context gives

std::vector<size_t> OffsetsOf(const TransportLayout& layout, PeerId owner) {
  std::vector<size_t> offsets;
  size_t at = 0;
  for (const SlotSpec& slot : layout.slots) {
    if (slot.owner != owner) continue;
    JANUS_CHECK(static_cast<size_t>(slot.index) == offsets.size(), slot.owner, slot.index);
    offsets.push_back(at);
    at += AlignUp(slot.bytes, kAlignment);
  }
  return offsets;
}

}  // namespace

size_t DeviceSlots::BytesFor(const TransportLayout& layout, PeerId member) {
  size_t bytes = 0;
  for (const SlotSpec& slot : layout.slots) {
    if (slot.owner == member) bytes += AlignUp(slot.bytes, kAlignment);
  }
  return bytes;
}

DeviceSlots::DeviceSlots(const TransportLayout& layout, kernels::Context& context)
    : layout_(layout), context_(context) {
  const auto members = static_cast<size_t>(layout.m + layout.n);
  peers_.resize(members);
  for (size_t i = 0; i < members; ++i) {
    offsets_.push_back(OffsetsOf(layout, MemberAt(layout, static_cast<int>(i))));
  }
}

Result<std::unique_ptr<DeviceSlots>> DeviceSlots::Make(const TransportLayout& layout,
                                                       kernels::Context& context, bool shows) {
  std::unique_ptr<DeviceSlots> slots(new DeviceSlots(layout, context));
  if (shows) {
    JANUS_ASSIGN_OR_RETURN(slots->own_, context.TakeShared(BytesFor(layout, layout.self)));
  }
  return slots;
}

size_t DeviceSlots::IndexOf(PeerId peer) const {
  return static_cast<size_t>(MemberIndex(layout_, peer));
}

void DeviceSlots::Map(PeerId peer, const Fd& fd) {
  // Attention instances read nothing of each other.
  const size_t bytes = BytesFor(layout_, peer);
  if (bytes == 0 || peer.role == layout_.self.role) return;
  if (!fd) {
    if (refusal_.empty()) refusal_ = ToString(peer) + " shows no GPU's memory";
    return;
  }
  Result<kernels::Buffer> mapped = context_.MapShared(fd, bytes);
  if (mapped.ok()) {
    peers_[IndexOf(peer)] = *std::move(mapped);
  } else if (refusal_.empty()) {
    refusal_ = "memory of " + ToString(peer) + ": " + mapped.status().message();
  }
}

Status Agree(Transport& transport, const std::vector<PeerId>& peers, const ConnectOptions& options,
             DeviceSlots* slots, std::stop_token stop) {
  const TransportLayout& layout = transport.layout();
  RoundKey key;
  key.epoch = options.identity.epoch;
  for (const PeerId peer : peers) {
    const bool maps = slots != nullptr && slots->maps(peer);
    const Header header = MakeHeader(MessageKind::kMaps, key,
                                     static_cast<uint16_t>(layout.self.rank.value), maps ? 1 : 0);
    JANUS_RETURN_IF_ERROR(transport.Send(peer, header, {}));
  }
  std::vector<PeerId> silent = peers;
  std::vector<PeerId> mapping;  // those that have ours
  Status wrong;
  const auto all_said = [&] {
    std::erase_if(silent, [&](PeerId peer) {
      Header header;
      std::vector<std::byte> payload;
      if (!transport.Receive(peer, header, payload)) return false;
      if (header.kind != MessageKind::kMaps) {
        wrong =
            Internal("exchange: " + ToString(peer) + " does not say whether it maps our memory");
      }
      if (header.count == 1) mapping.push_back(peer);
      return true;
    });
    return silent.empty() || !wrong.ok() || stop.stop_requested();
  };
  constexpr auto kAskAgain = std::chrono::milliseconds(20);
  for (;;) {
    const MonotonicTime slice = std::min(options.deadline, MonotonicClock::now() + kAskAgain);
    const Status waited = transport.Wait(slice, all_said);
    JANUS_RETURN_IF_ERROR(wrong);
    if (stop.stop_requested()) return Cancelled("connecting was aborted");
    if (waited.ok()) break;
    if (waited.code() != StatusCode::kDeadlineExceeded) return waited;
    if (options.keep_waiting && !options.keep_waiting()) {
      return Cancelled("connecting was aborted");
    }
    if (slice == options.deadline) {
      return DeadlineExceeded("exchange: " + ToString(silent.front()) +
                              " does not say in time whether it maps our memory");
    }
  }
  if (slots == nullptr) return OkStatus();
  bool all = slots->fd() >= 0;
  for (const SlotSpec& slot : layout.slots) {
    if (slot.owner != layout.self) continue;
    all = all && std::all_of(slot.readers.begin(), slot.readers.end(), [&](PeerId reader) {
            return std::find(mapping.begin(), mapping.end(), reader) != mapping.end();
          });
  }
  slots->set_is_read_by_all(all);
  return OkStatus();
}

}  // namespace janus::dataplane
