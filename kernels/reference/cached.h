#pragma once

// What a cache holds, number by number, whatever its format.

#include "kernels/element.h"
#include "kernels/kernels.h"

namespace janus::kernels {

// Of the keys and values of one kv head of a page.
class CachedHead {
 public:
  CachedHead(const KvCache& cache, int32_t page, int64_t kv_head)
      : cache_(cache), kv_head_(kv_head) {
    const int64_t bytes = cache.page_stride_bytes != 0
                              ? cache.page_stride_bytes
                              : KvPageBytes(cache.dtype, cache.kv_heads, cache.head_dim);
    page_ = static_cast<const unsigned char*>(cache.pages) + page * bytes;
  }
  double Key(int64_t in_page, int64_t d) const {
    const int64_t at = (kv_head_ * cache_.head_dim + d) * kPageTokens + in_page;
    return ReadElement(page_, cache_.dtype, at) * Scale(kv_head_, in_page);
  }
  double Value(int64_t in_page, int64_t d) const {
    const int64_t head = cache_.kv_heads + kv_head_;
    const int64_t at = (head * kPageTokens + in_page) * cache_.head_dim + d;
    return ReadElement(page_, cache_.dtype, at) * Scale(head, in_page);
  }

 private:
  double Scale(int64_t head, int64_t in_page) const {
    if (cache_.dtype != DType::kFloat8E4M3) return 1.0;
    return ReadElement(page_ + KvElementBytes(cache_.dtype, cache_.kv_heads, cache_.head_dim),
                       DType::kFloat32, head * kPageTokens + in_page);
  }

  KvCache cache_;
  int64_t kv_head_;
  const unsigned char* page_;
};

// Element d of a position's latent vector, or of its rope key from `rank` on.
inline double CachedLatent(const LatentCache& cache, int32_t page, int64_t in_page, int64_t d) {
  const int64_t bytes = cache.page_stride_bytes != 0
                            ? cache.page_stride_bytes
                            : LatentPageBytes(cache.dtype, cache.rank, cache.rope);
  const auto* const entry = static_cast<const unsigned char*>(cache.pages) + page * bytes +
                            in_page * LatentEntryBytes(cache.dtype, cache.rank, cache.rope);
  if (cache.dtype != DType::kFloat8E4M3) return ReadElement(entry, cache.dtype, d);
  if (d >= cache.rank) {
    return ReadElement(entry + LatentRopeAt(cache.rank), DType::kBFloat16, d - cache.rank);
  }
  const double scale =
      ReadElement(entry + LatentScalesAt(cache.rank), DType::kFloat32, d / kScaleBlock);
  return ReadElement(entry, cache.dtype, d) * scale;
}

}  // namespace janus::kernels
