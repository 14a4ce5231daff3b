#include <algorithm>

#include "kernels/backends.h"
#include "kernels/element.h"
#include "kernels/float8_pieces.h"

namespace janus::kernels {

void KvWriteReference(const KvWriteArgs& a) {
  const int kv_heads = a.cache.kv_heads;
  const int head_dim = a.cache.head_dim;
  const DType type = a.cache.dtype;
  const int64_t page_bytes = a.cache.page_stride_bytes != 0 ? a.cache.page_stride_bytes
                                                            : KvPageBytes(type, kv_heads, head_dim);
  const int64_t row = int64_t{kv_heads} * head_dim;
  const int64_t key_stride = a.key_stride != 0 ? a.key_stride : row;
  const int64_t value_stride = a.value_stride != 0 ? a.value_stride : row;
  for (int64_t t = 0; t < a.num_rows; ++t) {
    const int32_t position = a.rows[t].position;
    const int32_t in_page = position % kPageTokens;
    unsigned char* page = static_cast<unsigned char*>(a.cache.pages) +
                          a.rows[t].block_table[position / kPageTokens] * page_bytes;
    for (int h = 0; h < kv_heads; ++h) {
      const float* key_d = a.keys + t * key_stride + int64_t{h} * head_dim;
      const float* value_d = a.values + t * value_stride + int64_t{h} * head_dim;
      const auto scale_of = [&](const float* piece_d, int64_t head) {
        uint32_t largest = 0;
        for (int d = 0; d < head_dim; ++d) largest = std::max(largest, MagnitudeOf(piece_d[d]));
        const float scale = PieceScale(largest);
        WriteElement(page + KvElementBytes(type, kv_heads, head_dim), DType::kFloat32,
                     head * kPageTokens + in_page, scale);
        return scale;
      };
      const bool is_scaled = type == DType::kFloat8E4M3;
      const float key_scale = is_scaled ? scale_of(key_d, h) : 0.0f;
      const float value_scale = is_scaled ? scale_of(value_d, int64_t{kv_heads} + h) : 0.0f;
      for (int d = 0; d < head_dim; ++d) {
        const int64_t key = (int64_t{h} * head_dim + d) * kPageTokens + in_page;
        const int64_t value = ((int64_t{kv_heads} + h) * kPageTokens + in_page) * head_dim + d;
        if (is_scaled) {
          page[key] = PieceElement(key_d[d], key_scale);
          page[value] = PieceElement(value_d[d], value_scale);
        } else {
          WriteElement(page, type, key, key_d[d]);
          WriteElement(page, type, value, value_d[d]);
        }
      }
    }
  }
}

}  // namespace janus::kernels
