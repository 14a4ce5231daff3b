#include "kernels/backends.h"
#include "kernels/element.h"

namespace janus::kernels {

void LatentWriteReference(const LatentWriteArgs& a) {
  const LatentCache& cache = a.cache;
  const int64_t width = int64_t{cache.rank} + cache.rope;
  const int64_t page_bytes = cache.page_stride_bytes != 0
                                 ? cache.page_stride_bytes
                                 : LatentPageBytes(cache.dtype, cache.rank, cache.rope);
  const int64_t stride = a.entry_stride != 0 ? a.entry_stride : width;
  for (int64_t t = 0; t < a.num_rows; ++t) {
    const int32_t position = a.rows[t].position;
    unsigned char* page = static_cast<unsigned char*>(cache.pages) +
                          a.rows[t].block_table[position / kPageTokens] * page_bytes;
    for (int64_t d = 0; d < width; ++d) {
      WriteElement(page, cache.dtype, position % kPageTokens * width + d,
                   a.entries[t * stride + d]);
    }
  }
}

}  // namespace janus::kernels
