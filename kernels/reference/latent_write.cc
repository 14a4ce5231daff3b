#include <algorithm>

#include "kernels/backends.h"
#include "kernels/element.h"
#include "kernels/float8_pieces.h"

namespace janus::kernels {

void LatentWriteReference(const LatentWriteArgs& a) {
  const LatentCache& cache = a.cache;
  const int64_t width = int64_t{cache.rank} + cache.rope;
  const int64_t page_bytes = cache.page_stride_bytes != 0
                                 ? cache.page_stride_bytes
                                 : LatentPageBytes(cache.dtype, cache.rank, cache.rope);
  const int64_t entry_bytes = LatentEntryBytes(cache.dtype, cache.rank, cache.rope);
  const int64_t stride = a.entry_stride != 0 ? a.entry_stride : width;
  for (int64_t t = 0; t < a.num_rows; ++t) {
    const int32_t position = a.rows[t].position;
    unsigned char* entry = static_cast<unsigned char*>(cache.pages) +
                           a.rows[t].block_table[position / kPageTokens] * page_bytes +
                           position % kPageTokens * entry_bytes;
    const float* from_d = a.entries + t * stride;
    if (cache.dtype != DType::kFloat8E4M3) {
      for (int64_t d = 0; d < width; ++d) WriteElement(entry, cache.dtype, d, from_d[d]);
      continue;
    }
    for (int64_t begin = 0; begin < cache.rank; begin += kScaleBlock) {
      const int64_t end = std::min<int64_t>(begin + kScaleBlock, cache.rank);
      uint32_t largest = 0;
      for (int64_t d = begin; d < end; ++d) largest = std::max(largest, MagnitudeOf(from_d[d]));
      const float scale = PieceScale(largest);
      for (int64_t d = begin; d < end; ++d) entry[d] = PieceElement(from_d[d], scale);
      WriteElement(entry + LatentScalesAt(cache.rank), DType::kFloat32, begin / kScaleBlock, scale);
    }
    for (int64_t d = 0; d < cache.rope; ++d) {
      WriteElement(entry + LatentRopeAt(cache.rank), DType::kBFloat16, d, from_d[cache.rank + d]);
    }
  }
}

}  // namespace janus::kernels
