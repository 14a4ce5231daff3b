#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace janus::control {

// One field of a message as it stands on the wire (protobuf's "Encoding").
struct ProtobufEntry {
  enum class Format : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  uint32_t number = 0;
  Format format = Format::kVarint;
  uint64_t varint = 0;     // of a kVarint
  std::string_view bytes;  // of a kBytes; points into the message
};

// The fields of a message, one after the other, and what is no field. Copies nothing.
class ProtobufScanner {
 public:
  explicit ProtobufScanner(std::string_view message) : rest_(message) {}

  // False: that was all, or what follows is no field (is_broken).
  bool Next(ProtobufEntry& out) {
    if (rest_.empty() || is_broken_) return false;
    uint64_t tag = 0;
    if (!Varint(tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX >> 3) return Break();
    out.number = static_cast<uint32_t>(tag >> 3);
    out.format = static_cast<ProtobufEntry::Format>(tag & 7);
    switch (out.format) {
      case ProtobufEntry::Format::kVarint:
        return Varint(out.varint) || Break();
      case ProtobufEntry::Format::kFixed64:
        return Skip(8) || Break();
      case ProtobufEntry::Format::kFixed32:
        return Skip(4) || Break();
      case ProtobufEntry::Format::kBytes: {
        uint64_t size = 0;
        if (!Varint(size) || size > rest_.size()) return Break();
        out.bytes = rest_.substr(0, size);
        return Skip(size);
      }
    }
    return Break();  // a group: proto3 has none, nor has Kubernetes
  }

  // The next number of a packed list.
  bool NextPacked(uint64_t& out) {
    if (rest_.empty() || is_broken_) return false;
    return Varint(out) || Break();
  }

  bool is_broken() const { return is_broken_; }
  size_t left() const { return rest_.size(); }

 private:
  // LEB128, ten bytes at the most.
  bool Varint(uint64_t& out) {
    out = 0;
    for (size_t i = 0; i < rest_.size() && i < 10; ++i) {
      const auto byte = static_cast<unsigned char>(rest_[i]);
      out |= uint64_t{byte & 0x7FU} << (7 * i);
      if (byte < 0x80) return Skip(i + 1);
    }
    return false;
  }
  bool Skip(size_t bytes) {
    if (bytes > rest_.size()) return false;
    rest_.remove_prefix(bytes);
    return true;
  }
  bool Break() {
    is_broken_ = true;
    return false;
  }

  std::string_view rest_;
  bool is_broken_ = false;
};

}  // namespace janus::control
