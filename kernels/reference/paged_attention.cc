#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/backends.h"
#include "kernels/element.h"
#include "kernels/reference/cached.h"

namespace janus::kernels {

void PagedAttentionReference(const PagedAttentionArgs& a) {
  const int kv_heads = a.cache.kv_heads;
  const int head_dim = a.cache.head_dim;
  const int64_t row = int64_t{a.heads} * head_dim;
  const int64_t query_stride = a.query_stride != 0 ? a.query_stride : row;
  const int64_t y_stride = a.y_stride != 0 ? a.y_stride : row;
  for (int64_t t = 0; t < a.num_rows; ++t) {
    const KvRow& r = a.rows[t];
    const int64_t last = r.position;
    int64_t first = a.sliding_window == 0 ? 0 : std::max<int64_t>(0, last - a.sliding_window + 1);
    if (a.chunk > 0) first = last / a.chunk * a.chunk;
    for (int h = 0; h < a.heads; ++h) {
      const float* q_d = a.queries + t * query_stride + int64_t{h} * head_dim;
      const int64_t g = h / (a.heads / kv_heads);
      const auto cached = [&](int64_t j) {
        return CachedHead(a.cache, r.block_table[j / kPageTokens], g);
      };
      const auto score = [&](int64_t j) {
        const CachedHead of = cached(j);
        double dot = 0.0;
        for (int d = 0; d < head_dim; ++d) dot += q_d[d] * of.Key(j % kPageTokens, d);
        return dot * a.scale;
      };
      double largest = -std::numeric_limits<double>::infinity();
      for (int64_t j = first; j <= last; ++j) largest = std::max(largest, score(j));
      double total = 0.0;
      double y_d[kMaxHeadDim] = {};
      for (int64_t j = first; j <= last; ++j) {
        const double p = std::exp(score(j) - largest);
        total += p;
        const CachedHead of = cached(j);
        for (int d = 0; d < head_dim; ++d) y_d[d] += p * of.Value(j % kPageTokens, d);
      }
      if (a.sinks != nullptr) total += std::exp(a.sinks[h] - largest);
      for (int d = 0; d < head_dim; ++d) {
        WriteElement(a.y, a.y_dtype, t * y_stride + int64_t{h} * head_dim + d,
                     static_cast<float>(y_d[d] / total));
      }
    }
  }
}

}  // namespace janus::kernels
