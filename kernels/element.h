#pragma once

#include <cstdint>
#include <cstring>

#include "common/dtype.h"

namespace janus::kernels {

// Element `index` of an array of `type`, which is not Mxfp4, that starts at any address.
inline float ReadElement(const void* array, DType type, int64_t index) {
  const auto* bytes = static_cast<const unsigned char*>(array) + index * SizeOf(type);
  if (type == DType::kFloat32) {
    float value = 0.0f;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  }
  if (type == DType::kFloat8E4M3) return FromFloat8E4M3(*bytes);
  uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof(bits));
  return type == DType::kBFloat16 ? FromBFloat16(bits) : FromFloat16(bits);
}

// Stores `value` rounded to `type`, which is not Mxfp4.
inline void WriteElement(void* array, DType type, int64_t index, float value) {
  auto* bytes = static_cast<unsigned char*>(array) + index * SizeOf(type);
  if (type == DType::kFloat32) {
    std::memcpy(bytes, &value, sizeof(value));
    return;
  }
  if (type == DType::kFloat8E4M3) {
    *bytes = ToFloat8E4M3(value);
    return;
  }
  const uint16_t bits = type == DType::kBFloat16 ? ToBFloat16(value) : ToFloat16(value);
  std::memcpy(bytes, &bits, sizeof(bits));
}

}  // namespace janus::kernels
