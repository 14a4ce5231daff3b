#include "dataplane/model/cast.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace janus::dataplane {
namespace {

// All exponent bits set: NaN or infinity. Written so that the compiler vectorises it.
template <class Word>
bool NoneHasExponent(const Word* values, size_t count, Word exponent) {
  unsigned bad = 0;
  for (size_t i = 0; i < count; ++i) bad |= (values[i] & exponent) == exponent ? 1u : 0u;
  return bad == 0;
}

float Widen(const std::byte* at, DType dtype) {
  if (dtype == DType::kFloat32) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return dtype == DType::kBFloat16 ? FromBFloat16(bits) : FromFloat16(bits);
}

template <DType kFrom, DType kTo>
bool Cast(const std::byte* from, size_t count, std::byte* to) {
  bool finite = true;
  for (size_t i = 0; i < count; ++i) {
    const float value = Widen(from + i * static_cast<size_t>(SizeOf(kFrom)), kFrom);
    float rounded = value;
    if constexpr (kTo == DType::kFloat32) {
      std::memcpy(to + i * 4, &value, 4);
    } else {
      const uint16_t bits = kTo == DType::kBFloat16 ? ToBFloat16(value) : ToFloat16(value);
      rounded = kTo == DType::kBFloat16 ? FromBFloat16(bits) : FromFloat16(bits);
      std::memcpy(to + i * 2, &bits, 2);
    }
    finite = finite && std::isfinite(rounded);
  }
  return finite;
}

template <DType kFrom>
bool CastFrom(const std::byte* from, size_t count, std::byte* to, DType to_dtype) {
  switch (to_dtype) {
    case DType::kFloat32:
      return Cast<kFrom, DType::kFloat32>(from, count, to);
    case DType::kBFloat16:
      return Cast<kFrom, DType::kBFloat16>(from, count, to);
    case DType::kFloat16:
      return Cast<kFrom, DType::kFloat16>(from, count, to);
    case DType::kFloat8E4M3:
    case DType::kMxfp4:
      break;
  }
  return false;
}

}  // namespace

bool AllFinite(std::span<const std::byte> values, DType dtype) {
  if (dtype == DType::kFloat8E4M3) {
    unsigned bad = 0;
    for (const std::byte value : values)
      bad |= (value & std::byte{0x7f}) == std::byte{0x7f} ? 1 : 0;
    return bad == 0;
  }
  if (dtype == DType::kFloat32) {
    return NoneHasExponent(reinterpret_cast<const uint32_t*>(values.data()), values.size() / 4,
                           0x7f800000u);
  }
  const uint16_t exponent = dtype == DType::kBFloat16 ? 0x7f80 : 0x7c00;
  return NoneHasExponent(reinterpret_cast<const uint16_t*>(values.data()), values.size() / 2,
                         exponent);
}

bool CastAndCheck(std::span<const std::byte> from, DType from_dtype, std::byte* to,
                  DType to_dtype) {
  const size_t count = from.size() / static_cast<size_t>(SizeOf(from_dtype));
  switch (from_dtype) {
    case DType::kFloat32:
      return CastFrom<DType::kFloat32>(from.data(), count, to, to_dtype);
    case DType::kBFloat16:
      return CastFrom<DType::kBFloat16>(from.data(), count, to, to_dtype);
    case DType::kFloat16:
      return CastFrom<DType::kFloat16>(from.data(), count, to, to_dtype);
    case DType::kFloat8E4M3:
    case DType::kMxfp4:
      break;
  }
  return false;
}

bool DequantizeAndCheck(std::span<const std::byte> row, const float* scales, std::byte* to,
                        DType to_dtype) {
  float values[kScaleBlock];
  bool finite = true;
  for (size_t from = 0; from < row.size(); from += kScaleBlock) {
    const std::span<const std::byte> block =
        row.subspan(from, std::min<size_t>(kScaleBlock, row.size() - from));
    for (size_t i = 0; i < block.size(); ++i) {
      values[i] = FromFloat8E4M3(static_cast<uint8_t>(block[i])) * scales[from / kScaleBlock];
    }
    finite &= CastAndCheck(std::as_bytes(std::span(values).first(block.size())), DType::kFloat32,
                           to + from * static_cast<size_t>(SizeOf(to_dtype)), to_dtype);
  }
  return finite;
}

}  // namespace janus::dataplane
