#pragma once

// Reads a cache of any format number by number, for the plain forms, and writes pieces of fp8
// (../float8_pieces.h).

#include "kernels/cuda/element.h"
#include "kernels/cuda/warp.h"
#include "kernels/float8_pieces.h"
#include "kernels/kernels.h"

namespace janus::kernels::cuda {

// Of the keys and values of one kv head of a page.
class CachedHead {
 public:
  JANUS_DEVICE CachedHead(const KvCache& cache, int32_t page, int64_t kv_head)
      : cache_(cache), kv_head_(kv_head) {
    const int64_t bytes = cache.page_stride_bytes != 0
                              ? cache.page_stride_bytes
                              : KvPageBytes(cache.dtype, cache.kv_heads, cache.head_dim);
    page_ = static_cast<const unsigned char*>(cache.pages) + page * bytes;
  }
  JANUS_DEVICE float Key(int64_t in_page, int64_t d) const {
    return Element((kv_head_ * cache_.head_dim + d) * kPageTokens + in_page, kv_head_, in_page);
  }
  JANUS_DEVICE float Value(int64_t in_page, int64_t d) const {
    const int64_t head = cache_.kv_heads + kv_head_;
    return Element((head * kPageTokens + in_page) * cache_.head_dim + d, head, in_page);
  }

 private:
  JANUS_DEVICE float Element(int64_t at, int64_t head, int64_t in_page) const {
    const float element = Load(page_, cache_.dtype, at);
    if (cache_.dtype != DType::kFloat8E4M3) return element;
    const auto* const scales = reinterpret_cast<const float*>(
        page_ + KvElementBytes(cache_.dtype, cache_.kv_heads, cache_.head_dim));
    return element * scales[head * kPageTokens + in_page];
  }

  const KvCache& cache_;
  int64_t kv_head_;
  const unsigned char* page_;
};

// Element d of a position's latent vector, or of its rope key from `rank` on.
JANUS_DEVICE inline float CachedLatent(const LatentCache& cache, int32_t page, int64_t in_page,
                                       int64_t d) {
  const int64_t bytes = cache.page_stride_bytes != 0
                            ? cache.page_stride_bytes
                            : LatentPageBytes(cache.dtype, cache.rank, cache.rope);
  const auto* const entry = static_cast<const unsigned char*>(cache.pages) + page * bytes +
                            in_page * LatentEntryBytes(cache.dtype, cache.rank, cache.rope);
  if (cache.dtype != DType::kFloat8E4M3) return Load(entry, cache.dtype, d);
  if (d >= cache.rank) {
    return Load(entry + LatentRopeAt(cache.rank), DType::kBFloat16, d - cache.rank);
  }
  const auto* const scales = reinterpret_cast<const float*>(entry + LatentScalesAt(cache.rank));
  return Load(entry, cache.dtype, d) * scales[d / kScaleBlock];
}

// x[0..count-1] as a piece, by a warp: its elements `step` bytes apart from `to` on, and its scale.
template <class Warp>
JANUS_DEVICE void StorePiece(Warp& warp, const float* x, int64_t count, uint8_t* to, int64_t step,
                             float* scale) {
  const uint32_t largest = warp.Max([&](int lane) {
    uint32_t of_lane = 0;
    for (int64_t i = lane; i < count; i += kLanes) {
      const uint32_t magnitude = MagnitudeOf(x[i]);
      of_lane = magnitude > of_lane ? magnitude : of_lane;
    }
    return of_lane;
  });
  const float by = PieceScale(largest);
  warp.Lanes([&](int lane) {
    if (lane == 0) *scale = by;
    for (int64_t i = lane; i < count; i += kLanes) to[i * step] = PieceElement(x[i], by);
  });
}

}  // namespace janus::kernels::cuda
