#pragma once

// Random contents for pages of attention's caches, word by word.

#include <cstdint>

#include "common/dtype.h"
#include "common/philox.h"
#include "kernels/kernels.h"

namespace janus::bench {

// The layout of a unit of `unit` bytes (a page, or the entry of a position): fp8 elements up to
// `scales_at`, their scales up to `bf16_at`, then bfloat16. All are multiples of 4.
struct CacheLayout {
  int64_t unit = 0;
  int64_t scales_at = 0;
  int64_t bf16_at = 0;
};
inline CacheLayout LayoutOf(const kernels::KvCache& cache) {
  const int64_t page = kernels::KvPageBytes(cache.dtype, cache.kv_heads, cache.head_dim);
  if (cache.dtype != DType::kFloat8E4M3) return {.unit = page};
  return {.unit = page,
          .scales_at = kernels::KvElementBytes(cache.dtype, cache.kv_heads, cache.head_dim),
          .bf16_at = page};
}
inline CacheLayout LayoutOf(const kernels::LatentCache& cache) {
  const int64_t entry = kernels::LatentEntryBytes(cache.dtype, cache.rank, cache.rope);
  if (cache.dtype != DType::kFloat8E4M3) return {.unit = entry};
  return {.unit = entry,
          .scales_at = kernels::LatentScalesAt(cache.rank),
          .bf16_at = kernels::LatentRopeAt(cache.rank)};
}

// Word i of the pages. Values have a deviation near 1, so that scores differ: bfloat16 uniform in
// [-sqrt(3), sqrt(3)), fp8 elements in [-448, 448) with scales of 2^-8 or 2^-9.
constexpr uint32_t CacheWord(int64_t i, const CacheLayout& layout) {
  const uint32_t random =
      Philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0}, {6, 0})[0];
  const int64_t in_unit = 4 * i % layout.unit;
  uint32_t word = 0;
  if (in_unit < layout.scales_at) {
    for (int j = 0; j < 4; ++j) {
      const auto byte = static_cast<float>(random >> (8 * j) & 0xFFu);
      word |= uint32_t{ToFloat8E4M3((byte / 128.0f - 1.0f) * 448.0f)} << (8 * j);
    }
  } else if (in_unit < layout.bf16_at) {
    word = (127u - 8u - random % 2) << 23;  // an fp32 scale
  } else {
    for (int j = 0; j < 2; ++j) {
      const auto half = static_cast<float>(random >> (16 * j) & 0xFFFFu);
      word |= uint32_t{ToBFloat16((half / 32768.0f - 1.0f) * 1.7320508f)} << (16 * j);
    }
  }
  return word;
}

}  // namespace janus::bench
