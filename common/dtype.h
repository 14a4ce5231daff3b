#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace janus {

// Number formats of weights, caches and wire rows. Accumulation is always fp32.
enum class DType : uint8_t { kFloat32 = 0, kBFloat16 = 1, kFloat16 = 2 };

constexpr int64_t SizeOf(DType type) {
  return type == DType::kFloat32 ? 4 : 2;
}

constexpr std::string_view ToString(DType type) {
  switch (type) {
    case DType::kFloat32:
      return "Float32";
    case DType::kBFloat16:
      return "BFloat16";
    case DType::kFloat16:
      return "Float16";
  }
  return "unknown";
}

// fp32 -> bf16 and back. Rounds to nearest, ties to even; NaN stays NaN.
constexpr uint16_t ToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
constexpr float FromBFloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

}  // namespace janus
