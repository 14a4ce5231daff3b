#include <cmath>
#include <limits>

#include "kernels/backends.h"
#include "kernels/element.h"
#include "kernels/reference/cached.h"

namespace janus::kernels {

void ExpandedAttentionReference(const ExpandedAttentionArgs& a) {
  const LatentCache& cache = a.cache;
  const int64_t head_dim = int64_t{a.nope_dim} + cache.rope;
  const int64_t query_stride = a.query_stride != 0 ? a.query_stride : a.heads * head_dim;
  for (int64_t t = 0; t < a.num_rows; ++t) {
    const KvRow& r = a.rows[t];
    for (int64_t h = 0; h < a.heads; ++h) {
      const float* q_d = a.queries + t * query_stride + h * head_dim;
      // Softmax as the keys come, so that each is expanded once: what was summed is scaled down
      // when a larger score appears.
      double largest = -std::numeric_limits<double>::infinity();
      double total = 0.0;
      double y_v[kMaxHeadDim] = {};
      for (int64_t j = 0; j <= r.position; ++j) {
        const auto cached = [&](int64_t d) {
          return CachedLatent(cache, r.block_table[j / kPageTokens], j % kPageTokens, d);
        };
        const auto expanded = [&](int64_t row) {
          double sum = 0.0;
          for (int64_t d = 0; d < cache.rank; ++d) {
            const int64_t at = (h * (a.nope_dim + a.value_dim) + row) * cache.rank + d;
            sum += cached(d) * ReadElement(a.expand, a.expand_dtype, at);
          }
          return sum;
        };
        double score = 0.0;
        for (int d = 0; d < a.nope_dim; ++d) score += q_d[d] * expanded(d);
        for (int d = 0; d < cache.rope; ++d) score += q_d[a.nope_dim + d] * cached(cache.rank + d);
        score *= a.scale;
        if (score > largest) {
          const double fade = std::exp(largest - score);
          total *= fade;
          for (int v = 0; v < a.value_dim; ++v) y_v[v] *= fade;
          largest = score;
        }
        // Scores of -infinity alone weigh nothing.
        const double shift = std::isinf(largest) && largest < 0.0 ? 0.0 : largest;
        const double p = std::exp(score - shift);
        total += p;
        for (int v = 0; v < a.value_dim; ++v) y_v[v] += p * expanded(a.nope_dim + v);
      }
      for (int v = 0; v < a.value_dim; ++v) {
        WriteElement(a.y, a.y_dtype, (t * a.heads + h) * a.value_dim + v,
                     static_cast<float>(y_v[v] / total));
      }
    }
  }
}

}  // namespace janus::kernels
