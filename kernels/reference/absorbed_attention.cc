#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/backends.h"
#include "kernels/reference/cached.h"

namespace janus::kernels {

void AbsorbedAttentionReference(const AbsorbedAttentionArgs& a) {
  const LatentCache& cache = a.cache;
  const int64_t head_stride = a.rope_query_head_stride != 0 ? a.rope_query_head_stride : cache.rope;
  const int64_t row_stride =
      a.rope_query_row_stride != 0 ? a.rope_query_row_stride : a.heads * head_stride;
  for (int64_t t = 0; t < a.num_rows; ++t) {
    const KvRow& r = a.rows[t];
    const auto cached = [&](int64_t j, int64_t d) {
      return CachedLatent(cache, r.block_table[j / kPageTokens], j % kPageTokens, d);
    };
    for (int64_t h = 0; h < a.heads; ++h) {
      const float* latent_d = a.latent_queries + (t * a.heads + h) * cache.rank;
      const float* rope_d = a.rope_queries + t * row_stride + h * head_stride;
      const auto score = [&](int64_t j) {
        double dot = 0.0;
        for (int d = 0; d < cache.rank; ++d) dot += latent_d[d] * cached(j, d);
        for (int d = 0; d < cache.rope; ++d) dot += rope_d[d] * cached(j, cache.rank + d);
        return dot * a.scale;
      };
      double largest = -std::numeric_limits<double>::infinity();
      for (int64_t j = 0; j <= r.position; ++j) largest = std::max(largest, score(j));
      double total = 0.0;
      double y_d[kMaxLatentRank] = {};
      for (int64_t j = 0; j <= r.position; ++j) {
        const double p = std::exp(score(j) - largest);
        total += p;
        for (int d = 0; d < cache.rank; ++d) y_d[d] += p * cached(j, d);
      }
      for (int d = 0; d < cache.rank; ++d) {
        a.y[(t * a.heads + h) * cache.rank + d] = static_cast<float>(y_d[d] / total);
      }
    }
  }
}

}  // namespace janus::kernels
