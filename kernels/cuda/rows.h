#pragma once

// Operations over rows: embedding, RMSNorm, functions of elements, factors by position, rotary
// embedding, cache writes, combine. Memory is the limit. Specification:
// ../reference/{embed,rms_norm,pointwise,scale_by_position,rope,kv_write,latent_write,
// combine_slots}.cc

#include <cmath>

#include "kernels/cuda/cached.h"
#include "kernels/cuda/element.h"
#include "kernels/cuda/plan.h"
#include "kernels/kernels.h"

namespace janus::kernels::cuda {

inline constexpr int kElementThreads = 256;

// Thread per element. Only the device can see a token outside the vocabulary. Its row becomes NaN,
// so that sampling refuses the result.
struct EmbedKernel {
  static constexpr int kThreads = kElementThreads;
  EmbedArgs a;
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    block.Phase([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= a.rows * a.hidden) return;
      const int64_t token = a.tokens[i / a.hidden];
      const bool known = token >= 0 && token < a.vocab;
      a.y[i] = known ? Load(a.table, a.table_dtype, token * a.hidden + i % a.hidden) : NAN;
    });
  }
};
inline Plan PlanEmbed(const EmbedArgs& a) {
  const int64_t count = a.rows * a.hidden;
  return PlanElements(count, EmbedKernel::kThreads,
                      count * (SizeOf(a.table_dtype) + 4) + a.rows * 4, 0);
}

// Block per piece. Thread t sums the squares of elements t, t+256, ... in order; the partial sums
// are added as a tree of the same shape for every row.
struct RmsNormKernel {
  static constexpr int kThreads = 256;
  RmsNormArgs a;
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    // In 32 bits, as all blocks are counted: dividing 64 is a function that spills.
    const auto index = static_cast<uint32_t>(block.index());
    const auto groups = static_cast<uint32_t>(a.groups);
    const int64_t t = index / groups;
    const int64_t g = index % groups;
    const int64_t row = a.groups * a.hidden;
    const float* const x = a.x + t * (a.x_stride != 0 ? a.x_stride : row) + g * a.hidden;
    const int64_t y = t * (a.y_stride != 0 ? a.y_stride : row) + g * a.hidden;
    auto* const partial = reinterpret_cast<float*>(block.shared());
    block.Phase([&](int thread) {
      float sum = 0.0f;
      for (int64_t h = thread; h < a.hidden; h += kThreads) sum = fmaf(x[h], x[h], sum);
      partial[thread] = sum;
    });
    for (int half = kThreads / 2; half > 0; half /= 2) {
      block.Phase([&](int thread) {
        if (thread < half) partial[thread] += partial[thread + half];
      });
    }
    // y may be x: a thread writes only what it alone reads.
    block.Phase([&](int thread) {
      const float rms = sqrtf(partial[0] / static_cast<float>(a.hidden) + a.epsilon);
      for (int64_t h = thread; h < a.hidden; h += kThreads) {
        Store(a.y, a.y_dtype, y + h, x[h] / rms * Load(a.weight, a.weight_dtype, h));
      }
    });
  }
};
inline Plan PlanRmsNorm(const RmsNormArgs& a) {
  const int64_t count = a.rows * a.groups * a.hidden;
  return {a.rows * a.groups, RmsNormKernel::kThreads, RmsNormKernel::kThreads * 4,
          count * (4 + SizeOf(a.y_dtype)) + a.hidden * SizeOf(a.weight_dtype), 4 * count};
}

// Thread per element.
struct PointwiseKernel {
  static constexpr int kThreads = kElementThreads;
  PointwiseArgs a;
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    block.Phase([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= a.rows * a.columns) return;
      const int64_t stride = a.row_stride != 0 ? a.row_stride : a.columns;
      float* const at = a.x + i / a.columns * stride + i % a.columns;
      const float x = *at;
      if (a.function == PointFunction::kSigmoid) {
        *at = Sigmoid(x);
      } else {
        // By comparisons: minimum and maximum would lose a NaN.
        *at = x < -a.limit ? -a.limit : x > a.limit ? a.limit : x;
      }
    });
  }
};
inline Plan PlanPointwise(const PointwiseArgs& a) {
  const int64_t count = a.rows * a.columns;
  return PlanElements(count, PointwiseKernel::kThreads, 8 * count, 0);
}

// Thread per element.
struct ScaleByPositionKernel {
  static constexpr int kThreads = kElementThreads;
  ScaleByPositionArgs a;
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    block.Phase([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= a.rows * a.columns) return;
      const int64_t t = i / a.columns;
      const int64_t stride = a.row_stride != 0 ? a.row_stride : a.columns;
      const int64_t step =
          (static_cast<uint32_t>(a.positions[t]) + 1u) / static_cast<uint32_t>(a.step);
      const int64_t last = a.num_factors - 1;
      a.x[t * stride + i % a.columns] *= a.factors[step < last ? step : last];
    });
  }
};
// Rows share factors, so these count as one each.
inline Plan PlanScaleByPosition(const ScaleByPositionArgs& a) {
  const int64_t count = a.rows * a.columns;
  return PlanElements(count, ScaleByPositionKernel::kThreads, 8 * count + 8 * a.rows, count);
}

// Thread per (row, pair of a head), for all heads: sine and cosine are paid once.
struct RopeKernel {
  static constexpr int kThreads = kElementThreads;
  RopeArgs a;
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const int half = a.rotary_dim / 2;
    const int64_t stride = a.row_stride != 0 ? a.row_stride : int64_t{a.heads} * a.head_dim;
    block.Phase([&](int thread) {
      const int64_t at = block.index() * kThreads + thread;
      if (at >= a.rows * half) return;
      const int64_t t = at / half;
      const int i = static_cast<int>(at % half);
      const float angle = static_cast<float>(a.positions[t]) * a.inv_freq[i];
      const auto c = static_cast<float>(cos(static_cast<double>(angle)) * a.attention_factor);
      const auto s = static_cast<float>(sin(static_cast<double>(angle)) * a.attention_factor);
      const bool neighbours = a.pairing == RopePairing::kInterleaved;
      const int first = neighbours ? 2 * i : i;
      const int second = neighbours ? 2 * i + 1 : i + half;
      for (int h = 0; h < a.heads; ++h) {
        float* const x = a.x + t * stride + int64_t{h} * a.head_dim;
        const float u = x[first];
        const float v = x[second];
        x[first] = u * c - v * s;
        x[second] = v * c + u * s;
      }
    });
  }
};
inline Plan PlanRope(const RopeArgs& a) {
  const int64_t pairs = a.rows * (a.rotary_dim / 2);
  // A position of each row, a frequency of each pair.
  const int64_t angles = pairs > 0 ? 4 * (a.rows + a.rotary_dim / 2) : 0;
  return PlanElements(pairs, RopeKernel::kThreads, pairs * a.heads * 16 + angles,
                      pairs * a.heads * 6);
}

// What says where a row's keys and values, or its latent vector, go: the row and a page's number.
inline constexpr int64_t kWhereToWriteBytes = sizeof(KvRow) + 4;

// Thread per element of keys and of values. Two rows that name one position would race; the
// caller's rows are distinct.
struct KvWriteKernel {
  static constexpr int kThreads = kElementThreads;
  KvWriteArgs a;
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const KvCache& cache = a.cache;
    const int64_t row = int64_t{cache.kv_heads} * cache.head_dim;
    const int64_t page_bytes = cache.page_stride_bytes != 0
                                   ? cache.page_stride_bytes
                                   : KvPageBytes(cache.dtype, cache.kv_heads, cache.head_dim);
    block.Phase([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= a.num_rows * row) return;
      const int64_t t = i / row;
      const int64_t h = i % row / cache.head_dim;
      const int64_t d = i % cache.head_dim;
      const int32_t position = a.rows[t].position;
      const int32_t in_page = position % kPageTokens;
      auto* const page = static_cast<unsigned char*>(cache.pages) +
                         a.rows[t].block_table[position / kPageTokens] * page_bytes;
      Store(page, cache.dtype, (h * cache.head_dim + d) * kPageTokens + in_page,
            a.keys[t * (a.key_stride != 0 ? a.key_stride : row) + i % row]);
      Store(page, cache.dtype, ((cache.kv_heads + h) * kPageTokens + in_page) * cache.head_dim + d,
            a.values[t * (a.value_stride != 0 ? a.value_stride : row) + i % row]);
    });
  }
};
inline Plan PlanKvWrite(const KvWriteArgs& a) {
  const int64_t count = a.num_rows * a.cache.kv_heads * a.cache.head_dim;
  return PlanElements(count, KvWriteKernel::kThreads,
                      2 * count * (4 + SizeOf(a.cache.dtype)) + a.num_rows * kWhereToWriteBytes, 0);
}

// The same for a cache of fp8: warp per piece, of a row first the keys of its heads, then the
// values.
struct KvWritePiecesKernel {
  static constexpr int kThreads = kElementThreads;
  static constexpr int kWarps = kThreads / kLanes;
  KvWriteArgs a;
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const KvCache& cache = a.cache;
    const int pieces = 2 * cache.kv_heads;
    const int64_t page_bytes = cache.page_stride_bytes != 0
                                   ? cache.page_stride_bytes
                                   : KvPageBytes(cache.dtype, cache.kv_heads, cache.head_dim);
    block.Warps([&](auto& warp) {
      const int64_t piece = block.index() * kWarps + warp.index();
      if (piece >= a.num_rows * pieces) return;
      const int64_t t = piece / pieces;
      const auto head = static_cast<int>(piece % pieces);
      const bool is_key = head < cache.kv_heads;
      const int32_t in_page = a.rows[t].position % kPageTokens;
      auto* const page = static_cast<unsigned char*>(cache.pages) +
                         a.rows[t].block_table[a.rows[t].position / kPageTokens] * page_bytes;
      auto* const scales = reinterpret_cast<float*>(
          page + KvElementBytes(cache.dtype, cache.kv_heads, cache.head_dim));
      const int64_t given = is_key ? a.key_stride : a.value_stride;
      const int64_t stride = given != 0 ? given : int64_t{cache.kv_heads} * cache.head_dim;
      const float* const from = (is_key ? a.keys : a.values) + t * stride +
                                int64_t{is_key ? head : head - cache.kv_heads} * cache.head_dim;
      StorePiece(warp, from, cache.head_dim,
                 page + int64_t{head} * cache.head_dim * kPageTokens +
                     in_page * (is_key ? 1 : cache.head_dim),
                 is_key ? kPageTokens : 1, scales + head * kPageTokens + in_page);
    });
  }
};
inline Plan PlanKvWritePieces(const KvWriteArgs& a) {
  const int64_t pieces = 2 * a.num_rows * a.cache.kv_heads;
  return {CeilDiv(pieces, KvWritePiecesKernel::kWarps), KvWritePiecesKernel::kThreads, 0,
          pieces * (5 * int64_t{a.cache.head_dim} + 4) + a.num_rows * kWhereToWriteBytes, 0};
}

// Of latent vectors for a cache of fp8 (others: rows_fast.h): warp per piece of a row's latent
// vector, and one for its rope key.
struct LatentWritePiecesKernel {
  static constexpr int kThreads = kElementThreads;
  static constexpr int kWarps = kThreads / kLanes;
  LatentWriteArgs a;
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const LatentCache& cache = a.cache;
    const auto pieces = static_cast<int>(ScaleBlocks(cache.rank));
    const int64_t page_bytes = cache.page_stride_bytes != 0
                                   ? cache.page_stride_bytes
                                   : LatentPageBytes(cache.dtype, cache.rank, cache.rope);
    block.Warps([&](auto& warp) {
      const int64_t part = block.index() * kWarps + warp.index();
      if (part >= a.num_rows * (pieces + 1)) return;
      const int64_t t = part / (pieces + 1);
      const auto piece = static_cast<int>(part % (pieces + 1));
      const int32_t position = a.rows[t].position;
      auto* const entry =
          static_cast<unsigned char*>(cache.pages) +
          a.rows[t].block_table[position / kPageTokens] * page_bytes +
          position % kPageTokens * LatentEntryBytes(cache.dtype, cache.rank, cache.rope);
      const int64_t stride =
          a.entry_stride != 0 ? a.entry_stride : int64_t{cache.rank} + cache.rope;
      const float* const from = a.entries + t * stride;
      if (piece == pieces) {
        warp.Lanes([&](int lane) {
          for (int d = lane; d < cache.rope; d += kLanes) {
            Store(entry + LatentRopeAt(cache.rank), DType::kBFloat16, d, from[cache.rank + d]);
          }
        });
        return;
      }
      const int64_t begin = piece * kScaleBlock;
      const int64_t count = cache.rank - begin < kScaleBlock ? cache.rank - begin : kScaleBlock;
      StorePiece(warp, from + begin, count, entry + begin, 1,
                 reinterpret_cast<float*>(entry + LatentScalesAt(cache.rank)) + piece);
    });
  }
};
inline Plan PlanLatentWritePieces(const LatentWriteArgs& a) {
  const int64_t pieces = ScaleBlocks(a.cache.rank);
  return {CeilDiv(a.num_rows * (pieces + 1), LatentWritePiecesKernel::kWarps),
          LatentWritePiecesKernel::kThreads, 0,
          a.num_rows * (5 * int64_t{a.cache.rank} + 4 * pieces + 6 * int64_t{a.cache.rope} +
                        kWhereToWriteBytes),
          0};
}

// Element h of row t: the sum rule, not an approximation of it.
JANUS_DEVICE inline float CombinedSlots(const CombineSlotsArgs& a, int64_t t, int64_t h) {
  const int64_t i = t * a.hidden + h;
  float sum = 0.0f;
  for (int j = 0; j < a.top_k; ++j) {
    const float slot = Load(a.contributions[t * a.top_k + j], a.dtype, h);
    sum = j == 0 ? slot : sum + slot;
  }
  if (a.local != nullptr) sum = a.top_k == 0 ? a.local[i] : sum + a.local[i];
  return a.residual[i] + sum;
}

// Thread per element, which adds its slots in order.
struct CombineSlotsKernel {
  static constexpr int kThreads = kElementThreads;
  CombineSlotsArgs a;
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    block.Phase([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= a.rows * a.hidden) return;
      a.y[i] = CombinedSlots(a, i / a.hidden, i % a.hidden);
    });
  }
};
inline Plan PlanCombineSlots(const CombineSlotsArgs& a) {
  const int64_t count = a.rows * a.hidden;
  const int64_t local = a.local != nullptr ? 1 : 0;
  return PlanElements(count, CombineSlotsKernel::kThreads,
                      count * (8 + 4 * local + a.top_k * SizeOf(a.dtype)) + a.rows * a.top_k * 8,
                      count * (a.top_k + local));
}

}  // namespace janus::kernels::cuda
