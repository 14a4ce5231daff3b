#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace janus {

// Number formats of weights, caches and wire rows. Accumulation is always fp32. Float8E4M3 is only
// for weights and caches, Mxfp4 only for weights; both have scales beside them.
enum class DType : uint8_t {
  kFloat32 = 0,
  kBFloat16 = 1,
  kFloat16 = 2,
  kFloat8E4M3 = 3,
  kMxfp4 = 4,
};

constexpr int64_t BitsOf(DType type) {
  switch (type) {
    case DType::kFloat32:
      return 32;
    case DType::kFloat8E4M3:
      return 8;
    case DType::kMxfp4:
      return 4;
    case DType::kBFloat16:
    case DType::kFloat16:
      break;
  }
  return 16;
}
// Bytes of one element; 0 for Mxfp4, because two of its elements share a byte.
constexpr int64_t SizeOf(DType type) {
  return BitsOf(type) / 8;
}
// Bytes of so many elements; for Mxfp4 the number must be even.
constexpr int64_t BytesOf(DType type, int64_t elements) {
  return elements * BitsOf(type) / 8;
}

// Float8E4M3 weights have one scale per block of this many rows and columns. The last blocks of a
// matrix may be smaller.
inline constexpr int64_t kScaleBlock = 128;
constexpr int64_t ScaleBlocks(int64_t extent) {
  return (extent + kScaleBlock - 1) / kScaleBlock;
}

// OCP Microscaling 1.0, MXFP4: weights [N,K] have one E8M0 scale for each block of this many
// consecutive weights of a row: scales [N,K/32], one byte each. K is a multiple of it. A weight has
// 4 bits, in E2M1: weights [N,K/2] in bytes, the lower index in the lower bits.
inline constexpr int64_t kMxBlock = 32;

constexpr std::string_view ToString(DType type) {
  switch (type) {
    case DType::kFloat32:
      return "Float32";
    case DType::kBFloat16:
      return "BFloat16";
    case DType::kFloat16:
      return "Float16";
    case DType::kFloat8E4M3:
      return "Float8E4M3";
    case DType::kMxfp4:
      return "Mxfp4";
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

// fp32 -> fp16 and back. Rounds to nearest, ties to even; beyond 65504 it becomes infinity, below
// 2^-14 a subnormal, NaN stays NaN.
constexpr uint16_t ToFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above
  if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);             // below 2^-25
  uint32_t shift = 13;
  uint32_t mantissa = magnitude - 0x38000000u;  // rebias the exponent from 127 to 15
  if (magnitude < 0x38800000u) {
    shift = 126u - (magnitude >> 23);
    mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  }
  const uint32_t kept = mantissa >> shift;
  const uint32_t rest = mantissa & ((1u << shift) - 1u);
  const uint32_t half = 1u << (shift - 1u);
  const uint32_t up = rest > half || (rest == half && (kept & 1u)) ? 1u : 0u;
  return static_cast<uint16_t>(sign | (kept + up));  // a carry moves into the exponent as it should
}
constexpr float FromFloat16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  if (mantissa == 0) return std::bit_cast<float>(sign);
  uint32_t shift = 0;
  while ((mantissa & 0x400u) == 0) {
    mantissa <<= 1;
    ++shift;
  }
  return std::bit_cast<float>(sign | ((113u - shift) << 23) | ((mantissa & 0x3ffu) << 13));
}

// fp32 -> OCP fp8 E4M3 and back: exponent bias 7, subnormals of 2^-9, no infinity. Rounds to
// nearest, ties to even; beyond 448 it becomes 448; NaN (0x7f, 0xff) stays NaN.
constexpr uint8_t ToFloat8E4M3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  if (magnitude >= 0x43e00000u) return static_cast<uint8_t>(sign | 0x7eu);  // 448 and above
  if (magnitude <= 0x3a800000u) return static_cast<uint8_t>(sign);          // 2^-10: a tie to zero
  uint32_t shift = 20;
  uint32_t mantissa = magnitude - 0x3c000000u;  // rebias the exponent from 127 to 7
  if (magnitude < 0x3c800000u) {
    shift = 141u - (magnitude >> 23);
    mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  }
  const uint32_t kept = mantissa >> shift;
  const uint32_t rest = mantissa & ((1u << shift) - 1u);
  const uint32_t half = 1u << (shift - 1u);
  const uint32_t up = rest > half || (rest == half && (kept & 1u)) ? 1u : 0u;
  return static_cast<uint8_t>(sign | (kept + up));  // a carry moves into the exponent as it should
}
constexpr float FromFloat8E4M3(uint8_t bits) {
  const uint32_t magnitude = bits & 0x7fu;
  const float sign = (bits & 0x80u) != 0 ? -1.0f : 1.0f;
  if (magnitude == 0x7fu) return std::bit_cast<float>(0x7fc00000u);
  if (magnitude < 8) return sign * static_cast<float>(magnitude) * 0x1p-9f;
  return sign * std::bit_cast<float>((magnitude << 20) + 0x3c000000u);
}

// OCP E2M1 -> fp32, of the lower 4 bits: 0, 0.5, 1, 1.5, 2, 3, 4, 6, with the sign in bit 3.
constexpr float FromFloat4E2M1(uint8_t bits) {
  const uint32_t exponent = bits >> 1 & 3u;
  const uint32_t fraction = bits & 1u;
  const float sign = (bits & 8u) != 0 ? -1.0f : 1.0f;
  if (exponent == 0) return sign * 0.5f * static_cast<float>(fraction);
  return sign * std::bit_cast<float>((exponent + 126u) << 23 | fraction << 22);
}
// Rounds to nearest, ties to an even fraction; beyond 6 it becomes 6. Not for NaN.
constexpr uint8_t ToFloat4E2M1(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const float magnitude = std::bit_cast<float>(bits & 0x7fffffffu);
  // Above the middle of two neighbours the larger one is nearer. In the middle itself the one with
  // the even fraction is taken.
  constexpr float kMiddle[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  uint8_t code = 0;
  while (code < 7 && (magnitude > kMiddle[code] || (magnitude == kMiddle[code] && code % 2 != 0))) {
    ++code;
  }
  return static_cast<uint8_t>((bits >> 28 & 8u) | code);
}

// OCP E8M0 -> fp32: a power of two, 2^-127 to 2^127, or NaN.
constexpr float FromE8M0(uint8_t bits) {
  if (bits == 0xffu) return std::bit_cast<float>(0x7fc00000u);
  return bits == 0 ? 0x1p-127f : std::bit_cast<float>(static_cast<uint32_t>(bits) << 23);
}
// The largest scale with which every E2M1 number is exact in bfloat16: 6 times the next scale would
// overflow. (Small scales at worst give subnormals, which are exact too.) Larger scales in weights
// are refused.
inline constexpr uint8_t kMaxMxScale = 252;

// Weight `index` of an Mxfp4 matrix with whole blocks in each row. Exact.
constexpr float Mxfp4Weight(const uint8_t* weights, const uint8_t* scales, int64_t index) {
  const auto code = static_cast<uint8_t>(weights[index / 2] >> (index % 2 * 4) & 15);
  return FromFloat4E2M1(code) * FromE8M0(scales[index / kMxBlock]);
}

}  // namespace janus
