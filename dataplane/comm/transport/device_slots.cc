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
  remote_.resize(members);
  begun_.reserve(layout.slots.size());
  for (size_t i = 0; i < members; ++i) {
    offsets_.push_back(OffsetsOf(layout, MemberAt(layout, static_cast<int>(i))));
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

Status DeviceSlots::OpenToNetwork() {
  const auto open = [&]() -> Status {
    if (fd() >= 0) {
      JANUS_ASSIGN_OR_RETURN(own_on_network_,
                             context_.RegisterForNetwork(own_, kernels::NetworkUse::kReads));
    }
    const size_t landing = layout_.landing[static_cast<size_t>(layout_.self.role)];
    if (landing == 0) return OkStatus();
    JANUS_ASSIGN_OR_RETURN(landing_, context_.AllocateShared(landing));
    JANUS_ASSIGN_OR_RETURN(landing_on_network_,
                           context_.RegisterForNetwork(landing_, kernels::NetworkUse::kWrites));
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
  JANUS_RETURN_IF_ERROR(context_.AdmitNetwork());
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
  for (const SlotSpec& slot : layout_.slots) {
    if (slot.owner != layout_.self) continue;
    for (const PeerId reader : slot.readers) {
      const bool reads_remotely = is_among(remotely, reader);
      is_read_by_all_ = is_read_by_all_ && (reads_remotely || is_among(in_place, reader));
      is_read_remotely_ = is_read_remotely_ || reads_remotely;
    }
  }
}

Status DeviceSlots::Open(Transport& transport) {
  const auto members = static_cast<size_t>(layout_.m + layout_.n);
  read_.resize(members);
  std::vector<size_t> next(members, 0);  // by member: the next flag
  for (const SlotSpec& slot : layout_.slots) {
    const size_t owner = IndexOf(slot.owner);
    const bool is_own = slot.owner == layout_.self;
    const std::span<std::byte> flags =
        is_own || maps(slot.owner) ? transport.FlagsOf(slot.owner) : std::span<std::byte>();
    if (!flags.empty() && next[owner] == 0) {
      JANUS_ASSIGN_OR_RETURN(kernels::Buffer shown,
                             context_.RegisterFlags(flags.data(), flags.size()));
      registered_flags_.push_back(std::move(shown));
    }
    if (is_own) signalled_.emplace_back();
    read_[owner].push_back(nullptr);
    for (const PeerId reader : slot.readers) {
      const size_t at = next[owner]++ * kFlagStride;
      if (flags.empty()) continue;
      auto* const flag = std::launder(reinterpret_cast<kernels::Flag*>(flags.data() + at));
      if (is_own) signalled_.back().push_back(flag);
      if (reader == layout_.self) read_[owner].back() = flag;
    }
  }
  return OkStatus();
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
  awaited_.push_back({FlagOf(peer, slot), round});
  newest_ = std::max(newest_, round);
}

Status DeviceSlots::StreamWaitPeers() {
  if (!awaited_.empty() || has_landed_) has_let_go_ = false;
  const Status followed = context_.StreamWaitFlags(awaited_);
  awaited_.clear();
  JANUS_RETURN_IF_ERROR(followed);
  return std::exchange(has_landed_, false) ? context_.AdmitNetwork() : OkStatus();
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

bool DeviceSlots::IsThere(PeerId peer, int slot, uint64_t round) const {
  return kernels::HasReached({FlagOf(peer, slot), round});
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
