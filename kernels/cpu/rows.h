// Operations that go over rows once: embedding, norm, functions of elements, factors by position,
// rotary embedding, cache writes, combine. Bound by memory.

#pragma once

#include "kernels/cpu/deal.h"
#include "kernels/cpu/float8_pieces.h"
#include "kernels/cpu/lanes.h"

namespace janus::kernels::JANUS_ISA {
namespace {

void EmbedPart(const EmbedArgs& a, int part, int parts) {
  const Span rows = Share(a.rows, part, parts);
  const int64_t size = Bytes(a.table_dtype);
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const char* row = static_cast<const char*>(a.table) + a.tokens[t] * a.hidden * size;
    for (int64_t h = 0; h < a.hidden; h += kLanes) {
      const int64_t count = a.hidden - h;
      StoreUpTo(DType::kFloat32, a.y + t * a.hidden + h,
                LoadUpTo(a.table_dtype, row + h * size, count), count);
    }
  }
}

void RmsNormPart(const RmsNormArgs& a, int part, int parts) {
  const Span pieces = Share(a.rows * a.groups, part, parts);
  const int64_t x_stride = a.x_stride != 0 ? a.x_stride : a.groups * a.hidden;
  const int64_t y_stride = a.y_stride != 0 ? a.y_stride : a.groups * a.hidden;
  const int64_t weight_size = Bytes(a.weight_dtype);
  const int64_t y_size = Bytes(a.y_dtype);
  for (int64_t piece = pieces.begin; piece < pieces.end; ++piece) {
    const int64_t t = piece / a.groups;
    const int64_t at = piece % a.groups * a.hidden;
    const float* x = a.x + t * x_stride + at;
    V16 sums[4] = {Zero(), Zero(), Zero(), Zero()};
    int64_t h = 0;
    for (; h + 4 * kLanes <= a.hidden; h += 4 * kLanes) {
      JANUS_UNROLL for (int i = 0; i < 4; ++i) {
        const V16 v = Load(x + h + i * kLanes);
        sums[i] = Fma(v, v, sums[i]);
      }
    }
    for (; h < a.hidden; h += kLanes) {
      const V16 v = LoadUpTo(DType::kFloat32, x + h, a.hidden - h);
      sums[0] = Fma(v, v, sums[0]);
    }
    const float mean =
        AddLanes((sums[0] + sums[1]) + (sums[2] + sums[3])) / static_cast<float>(a.hidden);
    const V16 rms = Set(_mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean + a.epsilon))));
    const V16 scale = Set(1.0f) / rms;
    for (h = 0; h < a.hidden; h += kLanes) {
      const int64_t count = a.hidden - h;
      const V16 weight =
          LoadUpTo(a.weight_dtype, static_cast<const char*>(a.weight) + h * weight_size, count);
      const V16 y = LoadUpTo(DType::kFloat32, x + h, count) * scale * weight;
      StoreUpTo(a.y_dtype, static_cast<char*>(a.y) + (t * y_stride + at + h) * y_size, y, count);
    }
  }
}

// Of minimum and maximum the second argument is the result if either is NaN, so NaN stays.
void PointwisePart(const PointwiseArgs& a, int part, int parts) {
  const Span rows = Share(a.rows, part, parts);
  const int64_t stride = a.row_stride != 0 ? a.row_stride : a.columns;
  const V16 most = Set(a.limit);
  const V16 least = Zero() - most;
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    for (int64_t n = 0; n < a.columns; n += kLanes) {
      float* const x = a.x + t * stride + n;
      const int64_t count = a.columns - n;
      const V16 v = LoadUpTo(DType::kFloat32, x, count);
      const V16 y = a.function == PointFunction::kSigmoid ? Sigmoid(v) : Min(most, Max(least, v));
      StoreUpTo(DType::kFloat32, x, y, count);
    }
  }
}

void ScaleByPositionPart(const ScaleByPositionArgs& a, int part, int parts) {
  const Span rows = Share(a.rows, part, parts);
  const int64_t stride = a.row_stride != 0 ? a.row_stride : a.columns;
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const int64_t step = (int64_t{a.positions[t]} + 1) / a.step;
    const V16 factor = Set(a.factors[Smaller(step, a.num_factors - 1)]);
    for (int64_t n = 0; n < a.columns; n += kLanes) {
      float* const x = a.x + t * stride + n;
      const int64_t count = a.columns - n;
      StoreUpTo(DType::kFloat32, x, LoadUpTo(DType::kFloat32, x, count) * factor, count);
    }
  }
}

JANUS_INLINE void TurnHalves(float* x, float* y, V16 c, V16 s, int64_t count) {
  const V16 u = LoadUpTo(DType::kFloat32, x, count);
  const V16 v = LoadUpTo(DType::kFloat32, y, count);
  StoreUpTo(DType::kFloat32, x, Fma(u, c, Zero() - v * s), count);
  StoreUpTo(DType::kFloat32, y, Fma(v, c, u * s), count);
}

// Pairs (x[2j], x[2j+1]), j < count <= 16.
JANUS_INLINE void TurnNeighbours(float* x, V16 c, V16 s, int64_t count) {
  alignas(64) float even[kLanes] = {};
  alignas(64) float odd[kLanes] = {};
  for (int64_t j = 0; j < count; ++j) {
    even[j] = x[2 * j];
    odd[j] = x[2 * j + 1];
  }
  TurnHalves(even, odd, c, s, kLanes);
  for (int64_t j = 0; j < count; ++j) {
    x[2 * j] = even[j];
    x[2 * j + 1] = odd[j];
  }
}

void RopePart(const RopeArgs& a, int part, int parts) {
  const Span rows = Share(a.rows, part, parts);
  const int64_t stride = a.row_stride != 0 ? a.row_stride : int64_t{a.heads} * a.head_dim;
  const int64_t half = a.rotary_dim / 2;
  const V16 factor = Set(a.attention_factor);
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const V16 position = Set(static_cast<float>(a.positions[t]));
    for (int64_t i = 0; i < half; i += kLanes) {
      const int64_t count = half - i;
      V16 c;
      V16 s;
      CosSin(position * LoadUpTo(DType::kFloat32, a.inv_freq + i, count), &c, &s);
      c = c * factor;
      s = s * factor;
      for (int64_t h = 0; h < a.heads; ++h) {
        float* x = a.x + t * stride + h * a.head_dim;
        if (a.pairing == RopePairing::kInterleaved) {
          TurnNeighbours(x + 2 * i, c, s, Smaller(kLanes, count));
        } else {
          TurnHalves(x + i, x + i + half, c, s, count);
        }
      }
    }
  }
}

// A position's keys and values in fp8.
void KvWritePieces(const KvCache& cache, const float* keys, const float* values, char* page,
                   int64_t in_page) {
  const int64_t head_dim = cache.head_dim;
  char* const scales = page + KvElementBytes(cache.dtype, cache.kv_heads, cache.head_dim);
  for (int64_t h = 0; h < 2 * int64_t{cache.kv_heads}; ++h) {
    char* const at = page + h * head_dim * kPageTokens;
    float scale = 0.0f;
    if (h < cache.kv_heads) {
      char elements[kMaxHeadDim];
      scale = StorePiece(keys + h * head_dim, head_dim, elements);
      for (int64_t d = 0; d < head_dim; ++d) at[d * kPageTokens + in_page] = elements[d];
    } else {
      scale =
          StorePiece(values + (h - cache.kv_heads) * head_dim, head_dim, at + in_page * head_dim);
    }
    std::memcpy(scales + (h * kPageTokens + in_page) * 4, &scale, sizeof(scale));
  }
}

void KvWritePart(const KvWriteArgs& a, int part, int parts) {
  const Span rows = Share(a.num_rows, part, parts);
  const int64_t kv_heads = a.cache.kv_heads;
  const int64_t head_dim = a.cache.head_dim;
  const DType type = a.cache.dtype;
  const int64_t size = Bytes(type);
  const int64_t page_bytes = a.cache.page_stride_bytes != 0
                                 ? a.cache.page_stride_bytes
                                 : KvPageBytes(type, a.cache.kv_heads, a.cache.head_dim);
  const int64_t key_stride = a.key_stride != 0 ? a.key_stride : kv_heads * head_dim;
  const int64_t value_stride = a.value_stride != 0 ? a.value_stride : kv_heads * head_dim;
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const int64_t in_page = a.rows[t].position % kPageTokens;
    char* page = static_cast<char*>(a.cache.pages) +
                 a.rows[t].block_table[a.rows[t].position / kPageTokens] * page_bytes;
    if (type == DType::kFloat8E4M3) {
      KvWritePieces(a.cache, a.keys + t * key_stride, a.values + t * value_stride, page, in_page);
      continue;
    }
    for (int64_t h = 0; h < kv_heads; ++h) {
      const float* key = a.keys + t * key_stride + h * head_dim;
      const float* value = a.values + t * value_stride + h * head_dim;
      char* keys = page + (h * head_dim * kPageTokens + in_page) * size;
      char* values = page + ((kv_heads + h) * kPageTokens + in_page) * head_dim * size;
      for (int64_t d = 0; d < head_dim; d += kLanes) {
        const int64_t count = Smaller(kLanes, head_dim - d);
        StoreUpTo(type, values + d * size, LoadUpTo(DType::kFloat32, value + d, count), count);
        // Keys lie across: one element to each of the dimension's 16-position vectors.
        alignas(64) char rounded[64];
        StoreAs(type, rounded, LoadUpTo(DType::kFloat32, key + d, count));
        for (int64_t i = 0; i < count; ++i) {
          char* to = keys + (d + i) * kPageTokens * size;
          if (size == 4) {
            std::memcpy(to, rounded + i * 4, 4);
          } else {
            std::memcpy(to, rounded + i * 2, 2);
          }
        }
      }
    }
  }
}

// Columns dealt at a time, so that one row is enough work for a team.
constexpr int64_t kCombineColumns = 512;

void CombineSlotsPart(const CombineSlotsArgs& a, int part, int parts) {
  const int64_t blocks = CeilDiv(a.hidden, kCombineColumns);
  const int64_t size = Bytes(a.dtype);
  const Span mine = Share(a.rows * blocks, part, parts);
  for (int64_t unit = mine.begin; unit < mine.end; ++unit) {
    const int64_t t = unit / blocks;
    const int64_t begin = unit % blocks * kCombineColumns;
    const int64_t end = Smaller(a.hidden, begin + kCombineColumns);
    const void* const* slots = a.top_k == 0 ? nullptr : a.contributions + t * a.top_k;
    for (int64_t h = begin; h < end; h += kLanes) {
      const int64_t count = end - h;
      V16 sum = Zero();
      if (a.top_k > 0) {
        sum = LoadUpTo(a.dtype, static_cast<const char*>(slots[0]) + h * size, count);
      }
      for (int j = 1; j < a.top_k; ++j) {
        sum = sum + LoadUpTo(a.dtype, static_cast<const char*>(slots[j]) + h * size, count);
      }
      if (a.local != nullptr) {
        const V16 local = LoadUpTo(DType::kFloat32, a.local + t * a.hidden + h, count);
        sum = a.top_k == 0 ? local : sum + local;
      }
      const V16 residual = LoadUpTo(DType::kFloat32, a.residual + t * a.hidden + h, count);
      StoreUpTo(DType::kFloat32, a.y + t * a.hidden + h, residual + sum, count);
    }
  }
}

}  // namespace
}  // namespace janus::kernels::JANUS_ISA
