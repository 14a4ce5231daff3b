#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "common/function_ref.h"
#include "dataplane/comm/exchange/two_phase.h"

namespace janus::dataplane {

// Writes the sections of a bundle into a slot's memory.
class BundleWriter {
 public:
  BundleWriter() = default;
  explicit BundleWriter(std::span<std::byte> into) : into_(into) {}

  void Clear() { bytes_ = sections_ = 0; }
  // False: there is no room for it.
  bool Add(int slot, const SlotMessage& message) {
    const std::span<const std::byte> payload = message.payload;
    return Add(slot, message.header, payload.size(), [&](std::span<std::byte> into) {
      if (!payload.empty()) std::memcpy(into.data(), payload.data(), payload.size());
    });
  }
  // The same for a payload of so many bytes that `write` writes.
  bool Add(int slot, const Header& header, size_t bytes,
           FunctionRef<void(std::span<std::byte>)> write) {
    SectionHead head;
    head.header = header;
    head.header.bytes = bytes;
    head.slot = static_cast<uint32_t>(slot);
    if (bytes_ + SectionBytes(bytes) > into_.size()) return false;
    std::memcpy(into_.data() + bytes_, &head, sizeof head);
    write(into_.subspan(bytes_ + sizeof head, bytes));
    bytes_ += SectionBytes(bytes);
    ++sections_;
    return true;
  }
  // Where the payload of the next section goes, and how much it may have.
  std::span<std::byte> Room() const {
    const size_t at = std::min(bytes_ + sizeof(SectionHead), into_.size());
    return into_.subspan(at);
  }
  // Adds a section whose payload has been written there.
  bool AddWritten(int slot, const Header& header) {
    if (bytes_ + SectionBytes(header.bytes) > into_.size()) return false;
    SectionHead head;
    head.header = header;
    head.slot = static_cast<uint32_t>(slot);
    std::memcpy(into_.data() + bytes_, &head, sizeof head);
    bytes_ += SectionBytes(header.bytes);
    ++sections_;
    return true;
  }
  uint32_t sections() const { return sections_; }
  // The header to post the slot with.
  Header HeaderOf(const RoundKey& round, PeerId self) const {
    Header header =
        MakeHeader(MessageKind::kBundle, round, static_cast<uint16_t>(self.rank.value), sections_);
    header.bytes = bytes_;
    return header;
  }

 private:
  std::span<std::byte> into_;
  size_t bytes_ = 0;
  uint32_t sections_ = 0;
};

// Calls `visit` with each section, in place, until it returns false. False: it did, or the message,
// which is outside data, is not a bundle.
inline bool ReadBundle(const SlotMessage& bundle,
                       FunctionRef<bool(int, const SlotMessage&)> visit) {
  if (bundle.header.kind != MessageKind::kBundle) return false;
  std::span<const std::byte> rest = bundle.payload;
  for (uint32_t i = 0; i < bundle.header.count; ++i) {
    SectionHead head;
    if (rest.size() < sizeof head) return false;
    // Copied before the checks: a faulty peer can still write there.
    std::memcpy(&head, rest.data(), sizeof head);
    rest = rest.subspan(sizeof head);
    const uint64_t bytes = head.header.bytes;
    if (bytes > rest.size() || AlignUp(bytes) > rest.size()) return false;
    if (head.header.key() != bundle.header.key() || head.slot > INT32_MAX) return false;
    if (!visit(static_cast<int>(head.slot), {head.header, rest.first(bytes)})) return false;
    rest = rest.subspan(AlignUp(bytes));
  }
  return rest.empty();
}

}  // namespace janus::dataplane
