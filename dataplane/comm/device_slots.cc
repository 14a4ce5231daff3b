#include "dataplane/comm/device_slots.h"

#include <algorithm>
#include <new>
#include <utility>

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
  // Before anybody is told that payloads lie here.
  alignas(kernels::Flag) static std::byte probe[sizeof(kernels::Flag)];
  JANUS_RETURN_IF_ERROR(context.ShowFlags(probe, sizeof probe).status());
  JANUS_ASSIGN_OR_RETURN(slots->end_, context.MakeEvent());
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

Status DeviceSlots::Open(Transport& transport) {
  const auto members = static_cast<size_t>(layout_.m + layout_.n);
  read_.resize(members);
  std::vector<size_t> next(members, 0);  // flag of a member
  for (const SlotSpec& slot : layout_.slots) {
    const size_t owner = IndexOf(slot.owner);
    const bool is_own = slot.owner == layout_.self;
    const std::span<std::byte> flags =
        is_own || maps(slot.owner) ? transport.FlagsOf(slot.owner) : std::span<std::byte>();
    if (!flags.empty() && next[owner] == 0) {
      JANUS_ASSIGN_OR_RETURN(kernels::Buffer shown, context_.ShowFlags(flags.data(), flags.size()));
      shown_.push_back(std::move(shown));
    }
    if (is_own) raised_.emplace_back();
    read_[owner].push_back(nullptr);
    for (const PeerId reader : slot.readers) {
      const size_t at = next[owner]++ * kFlagStride;
      if (flags.empty()) continue;
      auto* const flag = std::launder(reinterpret_cast<kernels::Flag*>(flags.data() + at));
      if (is_own) raised_.back().push_back(flag);
      if (reader == layout_.self) read_[owner].back() = flag;
    }
  }
  return OkStatus();
}

void DeviceSlots::Close() {
  raised_.clear();
  read_.clear();
  shown_.clear();
}

Status DeviceSlots::Raise(int slot, uint64_t round) {
  raising_.clear();
  has_let_go_ = false;
  for (kernels::Flag* const flag : raised_[static_cast<size_t>(slot)]) {
    raising_.push_back({flag, round});
  }
  return context_.Raise(raising_);
}

void DeviceSlots::Await(PeerId peer, int slot, uint64_t round) {
  awaited_.push_back({FlagOf(peer, slot), round});
  newest_ = std::max(newest_, round);
}

Status DeviceSlots::FollowPeers() {
  if (!awaited_.empty()) has_let_go_ = false;
  const Status followed = context_.FollowFlags(awaited_);
  awaited_.clear();
  return followed;
}

bool DeviceSlots::IsThere(PeerId peer, int slot, uint64_t round) const {
  return kernels::HasReached({FlagOf(peer, slot), round});
}

bool DeviceSlots::LetGo() {
  awaited_.clear();
  if (has_let_go_ || (!is_letting_go_ && !context_.Record(*end_).ok())) return true;
  is_letting_go_ = true;
  const Result<bool> has_come = context_.HasCome(*end_);
  if (!has_come.ok() || *has_come) {
    is_letting_go_ = false;
    has_let_go_ = true;
    return true;
  }
  // Again and again: an owner that has not given up yet may set them back to an earlier round's.
  for (const std::vector<kernels::Flag*>& flags : read_) {
    for (kernels::Flag* const flag : flags) {
      if (flag != nullptr && !kernels::HasReached({flag, newest_})) {
        flag->store(newest_, std::memory_order_release);
      }
    }
  }
  return false;
}

}  // namespace janus::dataplane
