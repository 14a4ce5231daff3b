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

bool DeviceSlots::Map(PeerId peer, const Fd& fd) {
  // Attention instances read nothing of each other.
  const size_t bytes = BytesFor(layout_, peer);
  if (bytes == 0 || peer.role == layout_.self.role) return false;
  const auto refuse = [&](const std::string& why) {
    if (refusal_.empty()) refusal_ = why;
    return false;
  };
  if (!fd) return refuse(ToString(peer) + " shows no GPU's memory");
  Result<kernels::Buffer> mapped = context_.MapShared(fd, bytes);
  if (!mapped.ok()) return refuse("memory of " + ToString(peer) + ": " + mapped.status().message());
  peers_[IndexOf(peer)] = *std::move(mapped);
  return true;
}

void DeviceSlots::PutInto(Offer& offer) {
  offer.device = fd();
  offer.map_device = [this](PeerId peer, const Fd& shown) { return Map(peer, shown); };
}

void DeviceSlots::Conclude(const std::vector<Met>& met) {
  const auto maps_ours = [&](PeerId reader) {
    return std::any_of(met.begin(), met.end(),
                       [&](const Met& peer) { return peer.peer == reader && peer.maps_ours; });
  };
  is_read_by_all_ =
      fd() >= 0 &&
      std::all_of(layout_.slots.begin(), layout_.slots.end(), [&](const SlotSpec& slot) {
        return slot.owner != layout_.self ||
               std::all_of(slot.readers.begin(), slot.readers.end(), maps_ours);
      });
}

}  // namespace janus::dataplane
