#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/dtype.h"

namespace janus {

// How rows and contributions are compressed on the wire, in both directions.
enum class Compression : uint8_t { kNone = 0, kFp8 = 1 };
constexpr std::string_view ToString(Compression compression) {
  return compression == Compression::kFp8 ? "FP8" : "None";
}

// What a row is in the exchange's slots; a contribution has the same form. The exchange, what reads
// and writes its slots, and the plans of memory all ask here. Pure.
//
// kNone: H elements of the activations' type; they are computed in place.
// kFp8: H elements of Float8E4M3, zero to three bytes of padding, then one fp32 scale for each
// block of kScaleBlock elements (kernels::PackFp8 has the arithmetic).
struct RowFormat {
  int hidden = 0;                // H
  DType type = DType::kFloat32;  // of the activations: Float32 or BFloat16
  Compression compression = Compression::kNone;

  // Whether a row is packed before it is sent and unpacked before it is used.
  constexpr bool is_packed() const { return compression != Compression::kNone; }
  // Bytes of a row that is not packed.
  constexpr size_t exact_bytes() const {
    return static_cast<size_t>(hidden) * static_cast<size_t>(SizeOf(type));
  }
  // Offset of a packed row's scales; a multiple of 4.
  constexpr size_t scales_at() const { return (static_cast<size_t>(hidden) + 3) / 4 * 4; }
  // Bytes of a row in a slot.
  constexpr size_t bytes() const {
    if (!is_packed()) return exact_bytes();
    return scales_at() + static_cast<size_t>(ScaleBlocks(hidden)) * sizeof(float);
  }
};

}  // namespace janus
