#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace janus::control {

// Messages of protobuf, written by hand: what no server would send as well.

inline std::string ProtobufVarint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

inline std::string ProtobufNumber(uint32_t field, uint64_t value) {
  return ProtobufVarint(uint64_t{field} << 3) + ProtobufVarint(value);
}

inline std::string ProtobufBytes(uint32_t field, std::string_view bytes) {
  return ProtobufVarint(uint64_t{field} << 3 | 2) + ProtobufVarint(bytes.size()) +
         std::string(bytes);
}

// An object as the API server wraps it.
inline std::string ProtobufObject(std::string_view api_version, std::string_view kind,
                                  std::string_view message) {
  return std::string("k8s\0", 4) +
         ProtobufBytes(1, ProtobufBytes(1, api_version) + ProtobufBytes(2, kind)) +
         ProtobufBytes(2, message) + ProtobufBytes(3, "") + ProtobufBytes(4, "");
}

// An event of a watch, after its size.
inline std::string ProtobufEventFrame(std::string_view type, std::string_view object) {
  const std::string event = ProtobufBytes(1, type) + ProtobufBytes(2, ProtobufBytes(1, object));
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(event.size() >> shift);
  return out + event;
}

// A Pod with no more than that.
inline std::string ProtobufPod(std::string_view name, std::string_view resource_version,
                               std::string_view more_metadata = "") {
  const std::string metadata = ProtobufBytes(1, name) + ProtobufBytes(6, resource_version);
  return ProtobufObject("v1", "Pod", ProtobufBytes(1, metadata + std::string(more_metadata)));
}

}  // namespace janus::control
