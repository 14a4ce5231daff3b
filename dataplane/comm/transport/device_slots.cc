#include "dataplane/comm/transport/device_slots.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

namespace janus::dataplane {
namespace {

constexpr size_t kAlignment = 256;  // alignment of a context's allocations

using Proof = std::array<uint64_t, DeviceSlots::kProofBytes / sizeof(uint64_t)>;
static_assert(DeviceSlots::kProofBytes <= kAlignment);  // each slot has at least kAlignment bytes
Proof WordsOf(uint64_t proof) {
  Proof words;
  for (size_t i = 0; i < words.size(); ++i) words[i] = proof + i * 0x9e3779b97f4a7c15;
  return words;
}

std::vector<size_t> OffsetsOf(const TransportLayout& layout, PeerId owner) {
  std::vector<size_t> offsets;
  size_t at = 0;
  for (const SlotSpec& slot : layout.slots_on_devices()) {
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
  for (const SlotSpec& slot : layout.slots_on_devices()) {
    if (slot.owner == member) bytes += AlignUp(slot.bytes, kAlignment);
  }
  return bytes;
}

DeviceSlots::DeviceSlots(const TransportLayout& layout, kernels::Context& context)
    : layout_(layout), context_(context) {
  const auto members = static_cast<size_t>(layout.m + layout.n);
  peers_.resize(members);
  mates_.resize(members);
  remote_.resize(members);
  begun_.reserve(layout.slots_on_devices().size());
  for (size_t i = 0; i < members; ++i) {
    offsets_.push_back(OffsetsOf(layout, MemberAt(layout, static_cast<int>(i))));
    landing_of_.emplace_back(offsets_.back().size(), -1);
  }
  for (size_t i = 0; i < layout.landings.size(); ++i) {
    const LandingSpec& landing = layout.landings[i];
    const bool is_own = landing.owner == layout.self;
    if (!is_own && std::ranges::count(landing.mates, layout.self) == 0) continue;
    landing_of_[IndexOf(landing.source)][static_cast<size_t>(landing.slot)] = static_cast<int>(i);
    landing_is_shared_ = landing_is_shared_ || (is_own && !landing.mates.empty());
  }
}

Result<std::unique_ptr<DeviceSlots>> DeviceSlots::Make(const TransportLayout& layout,
                                                       kernels::Context& context, bool shows) {
  std::unique_ptr<DeviceSlots> slots(new DeviceSlots(layout, context));
  // Checks now that flags can be registered, before peers learn that payloads lie here.
  alignas(kernels::Flag) static std::byte probe[sizeof(kernels::Flag)];
  JANUS_RETURN_IF_ERROR(context.RegisterFlags(probe, sizeof probe).status());
  JANUS_ASSIGN_OR_RETURN(slots->end_, context.MakeEvent());
  if (shows) {
    JANUS_ASSIGN_OR_RETURN(slots->own_, context.AllocateShared(BytesFor(layout, layout.self)));
  }
  return slots;
}

size_t DeviceSlots::IndexOf(PeerId peer) const {
  return static_cast<size_t>(MemberIndex(layout_, peer));
}

bool DeviceSlots::Map(PeerId peer, const Fd& fd) {
  // Attention instances do not read each other's slots, nor do expert instances.
  const bool is_mate = peer.role == layout_.self.role;
  const bool lands_for_us = std::ranges::any_of(layout_.landings, [&](const LandingSpec& landing) {
    return landing.owner == peer && std::ranges::count(landing.mates, layout_.self) > 0;
  });
  if (is_mate && (!lands_for_us || !fd)) return false;
  const size_t bytes = is_mate ? LandingOf(layout_, peer) : BytesFor(layout_, peer);
  if (bytes == 0) return false;
  const auto refuse = [&](const std::string& why) {
    if (refusal_.empty()) refusal_ = why;
    return false;
  };
  if (!fd) return refuse(ToString(peer) + " shows no GPU's memory");
  Result<kernels::Buffer> mapped = context_.MapShared(fd, bytes);
  if (!mapped.ok()) return refuse("memory of " + ToString(peer) + ": " + mapped.status().message());
  (is_mate ? mates_ : peers_)[IndexOf(peer)] = *std::move(mapped);
  return true;
}

Status DeviceSlots::AllocateLanding() {
  const size_t bytes = LandingOf(layout_, layout_.self);
  if (bytes == 0) return OkStatus();
  JANUS_ASSIGN_OR_RETURN(landing_, context_.AllocateShared(bytes));
  return OkStatus();
}

void DeviceSlots::PutInto(Offer& offer) {
  offer.device = fd();
  offer.landing = landing_is_shared_ ? landing_.fd.get() : -1;
  offer.map_device = [this](PeerId peer, const Fd& shown) { return Map(peer, shown); };
}

Status DeviceSlots::OpenToNetwork() {
  const auto open = [&]() -> Status {
    if (fd() >= 0) {
      JANUS_ASSIGN_OR_RETURN(own_on_network_,
                             context_.RegisterForNetwork(own_, kernels::NetworkUse::kReads));
    }
    if (landing_.buffer.size() == 0) return OkStatus();
    JANUS_ASSIGN_OR_RETURN(landing_on_network_,
                           context_.RegisterForNetwork(landing_, landing_use()));
    return OkStatus();
  };
  const Status opened = open();
  if (!opened.ok()) {
    own_on_network_ = kernels::Buffer();
    landing_on_network_ = kernels::Buffer();
    landing_ = kernels::SharedMemory();
  }
  return opened;
}

Status DeviceSlots::WriteProof(uint64_t proof) {
  JANUS_CHECK(own_.buffer.size() >= kProofBytes, own_.buffer.size());
  const Proof words = WordsOf(proof);
  JANUS_RETURN_IF_ERROR(context_.CopyIn(own_.buffer.data(), words.data(), sizeof words));
  return context_.Wait();
}

Result<bool> DeviceSlots::HasLanded(uint64_t proof) {
  Proof landed{};
  JANUS_RETURN_IF_ERROR(context_.AdmitNetwork(landing_use()));
  JANUS_RETURN_IF_ERROR(context_.CopyOut(landed.data(), landing_.buffer.data(), sizeof landed));
  JANUS_RETURN_IF_ERROR(context_.Wait());
  return landed == WordsOf(proof);
}

void DeviceSlots::Conclude(const std::vector<PeerId>& in_place,
                           const std::vector<PeerId>& remotely) {
  const auto is_among = [](const std::vector<PeerId>& peers, PeerId peer) {
    return std::find(peers.begin(), peers.end(), peer) != peers.end();
  };
  is_read_by_all_ = fd() >= 0;
  is_read_remotely_ = false;
  for (const SlotSpec& slot : layout_.slots_on_devices()) {
    if (slot.owner != layout_.self) continue;
    for (const PeerId reader : slot.readers) {
      const bool reads_remotely = is_among(remotely, reader);
      is_read_by_all_ = is_read_by_all_ && (reads_remotely || is_among(in_place, reader));
      is_read_remotely_ = is_read_remotely_ || reads_remotely;
    }
  }
}

const std::byte* DeviceSlots::Of(PeerId peer, int slot) const {
  if (maps(peer)) return peers_[IndexOf(peer)].data() + OffsetOf(peer, slot);
  const LandingSpec& landing = *LandingFor(peer, slot);
  const bool is_own = landing.owner == layout_.self;
  return (is_own ? landing_.buffer : mates_[IndexOf(landing.owner)]).data() + landing.at;
}

PeerId DeviceSlots::ReaderOf(PeerId peer) const {
  for (size_t slot = 0; slot < landing_of_[IndexOf(peer)].size(); ++slot) {
    if (const LandingSpec* landing = LandingFor(peer, static_cast<int>(slot)))
      return landing->owner;
  }
  return layout_.self;
}

Status DeviceSlots::Open(Transport& transport) {
  const auto members = static_cast<size_t>(layout_.m + layout_.n);
  read_.resize(members);
  registered_flags_.resize(members);
  std::vector<size_t> next(members, 0);  // by member: the next flag
  const auto flags_of = [&](PeerId owner) -> std::span<std::byte> {
    const bool is_used = owner == layout_.self || maps(owner) || MapsLanding(owner);
    return is_used ? transport.FlagsOf(owner) : std::span<std::byte>();
  };
  // The flags of the next readers that the layout has; empty: there are none here.
  std::vector<kernels::Flag*> found;
  const auto find = [&](PeerId owner, size_t readers) -> Status {
    const std::span<std::byte> flags = flags_of(owner);
    found.clear();
    JANUS_RETURN_IF_ERROR(RegisterFlags(owner, flags));
    for (size_t i = 0; i < readers; ++i) {
      const size_t at = next[IndexOf(owner)]++ * kFlagStride;
      if (flags.empty()) continue;
      found.push_back(std::launder(reinterpret_cast<kernels::Flag*>(flags.data() + at)));
    }
    return OkStatus();
  };
  const auto ours = [&](const std::vector<PeerId>& readers) -> kernels::Flag* {
    const auto at = std::ranges::find(readers, layout_.self) - readers.begin();
    return at < std::ssize(found) ? found[static_cast<size_t>(at)] : nullptr;
  };
  for (const SlotSpec& slot : layout_.slots_on_devices()) {
    JANUS_RETURN_IF_ERROR(find(slot.owner, slot.readers.size()));
    if (slot.owner == layout_.self) signalled_.push_back(found);
    read_[IndexOf(slot.owner)].push_back(ours(slot.readers));
  }
  for (const LandingSpec& landing : layout_.landings) {
    JANUS_RETURN_IF_ERROR(find(landing.owner, landing.mates.size()));
    std::vector<kernels::Flag*>& flags = landed_.emplace_back();
    if (landing.owner == layout_.self) {
      flags = found;
    } else if (kernels::Flag* const flag = ours(landing.mates)) {
      flags.push_back(flag);
    }
  }
  return OkStatus();
}

Status DeviceSlots::RegisterFlags(PeerId owner, std::span<std::byte> flags) {
  kernels::Buffer& registered = registered_flags_[IndexOf(owner)];
  if (flags.empty() || registered.data() != nullptr) return OkStatus();
  JANUS_ASSIGN_OR_RETURN(registered, context_.RegisterFlags(flags.data(), flags.size()));
  return OkStatus();
}

kernels::Flag* DeviceSlots::FlagOf(PeerId peer, int slot) const {
  if (maps(peer)) return read_[IndexOf(peer)][static_cast<size_t>(slot)];
  const int at = landing_of_[IndexOf(peer)][static_cast<size_t>(slot)];
  if (at < 0 || layout_.landings[static_cast<size_t>(at)].owner == layout_.self) return nullptr;
  const std::vector<kernels::Flag*>& flags = landed_[static_cast<size_t>(at)];
  return flags.empty() ? nullptr : flags.front();
}

void DeviceSlots::Close() {
  RemoteReads* const reads = std::exchange(reads_, nullptr);
  if (reads != nullptr && !reads->Close()) {
    // A network device may still write to that memory: leak it deliberately.
    (void)new kernels::SharedMemory(std::move(landing_));
  }
  begun_.clear();
  signalled_.clear();
  read_.clear();
  landed_.clear();
  registered_flags_.clear();
}

Status DeviceSlots::Signal(int slot, uint64_t round) {
  signals_.clear();
  has_let_go_ = false;
  for (kernels::Flag* const flag : signalled_[static_cast<size_t>(slot)]) {
    signals_.push_back({flag, round});
  }
  return context_.Signal(signals_);
}

void DeviceSlots::Await(PeerId peer, int slot, uint64_t round) {
  kernels::Flag* const flag = FlagOf(peer, slot);
  if (flag == nullptr) return;  // it has landed here
  awaited_.push_back({flag, round});
  newest_ = std::max(newest_, round);
}

Status DeviceSlots::StreamWaitPeers() {
  if (!awaited_.empty() || has_landed_) has_let_go_ = false;
  const Status followed = context_.StreamWaitFlags(awaited_);
  awaited_.clear();
  JANUS_RETURN_IF_ERROR(followed);
  return std::exchange(has_landed_, false) ? context_.AdmitNetwork(landing_use()) : OkStatus();
}

Status DeviceSlots::Read(PeerId peer, int slot, size_t bytes, size_t at) {
  JANUS_CHECK(at + bytes <= landing_.buffer.size(), at, bytes, landing_.buffer.size());
  JANUS_RETURN_IF_ERROR(reads_->Begin(peer, slot, OffsetOf(peer, slot), at, bytes));
  begun_.emplace_back(peer, slot);
  return OkStatus();
}

Result<bool> DeviceSlots::HasRead(PeerId peer, int slot) {
  JANUS_ASSIGN_OR_RETURN(const bool has_ended, reads_->HasEnded(peer, slot));
  if (!has_ended) return false;
  std::erase(begun_, std::pair(peer, slot));
  has_landed_ = true;
  return true;
}

bool DeviceSlots::HasReadAll() {
  std::erase_if(begun_, [&](const std::pair<PeerId, int>& read) {
    const Result<bool> has_ended = reads_->HasEnded(read.first, read.second);
    return !has_ended.ok() || *has_ended;
  });
  return begun_.empty();
}

bool DeviceSlots::ReadsForNode(PeerId peer, int slot) const {
  const LandingSpec* const landing = LandingFor(peer, slot);
  return landing != nullptr && landing->owner == layout_.self && reads_remotely(peer);
}

Status DeviceSlots::ReadForNode(PeerId peer, int slot, size_t bytes) {
  const LandingSpec& landing = *LandingFor(peer, slot);
  JANUS_CHECK(bytes <= landing.bytes, bytes, landing.bytes);
  return Read(peer, slot, bytes, landing.at);
}

Status DeviceSlots::SignalLanded(std::span<const PeerId> peers, int slot, uint64_t round) {
  signals_.clear();
  for (const PeerId peer : peers) {
    const int at = landing_of_[IndexOf(peer)][static_cast<size_t>(slot)];
    for (kernels::Flag* const flag : landed_[static_cast<size_t>(at)]) {
      signals_.push_back({flag, round});
    }
  }
  if (std::exchange(has_landed_, false)) {
    JANUS_RETURN_IF_ERROR(context_.AdmitNetwork(landing_use()));
  }
  if (signals_.empty()) return OkStatus();
  has_let_go_ = false;
  return context_.Signal(signals_);
}

bool DeviceSlots::IsThere(PeerId peer, int slot, uint64_t round) const {
  kernels::Flag* const flag = FlagOf(peer, slot);
  return flag == nullptr || kernels::HasReached({flag, round});
}

bool DeviceSlots::LetGo() {
  awaited_.clear();
  if (has_let_go_ || (!is_letting_go_ && !context_.Record(*end_).ok())) return true;
  is_letting_go_ = true;
  const Result<bool> is_done = context_.Query(*end_);
  if (!is_done.ok() || *is_done) {
    is_letting_go_ = false;
    has_let_go_ = true;
    return true;
  }
  // Repeated on every call: an owner that has not given up yet may set a flag back to an earlier
  // round.
  const auto release = [&](kernels::Flag* flag) {
    if (flag != nullptr && !kernels::HasReached({flag, newest_})) {
      flag->store(newest_, std::memory_order_release);
    }
  };
  for (const std::vector<kernels::Flag*>& flags : read_) {
    for (kernels::Flag* const flag : flags) release(flag);
  }
  for (size_t i = 0; i < landed_.size(); ++i) {
    if (layout_.landings[i].owner == layout_.self) continue;  // the mates' flags
    for (kernels::Flag* const flag : landed_[i]) release(flag);
  }
  return false;
}

}  // namespace janus::dataplane
