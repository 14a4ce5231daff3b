#pragma once

// Attention over paged keys and values, plain: one algorithm for prompt and generated rows. Blocks
// of kKeyBlock keys and splits of kKeySplit lie at absolute positions and are taken in order, so a
// row's bits depend on its position and keys alone. Specification:
// ../reference/{paged,absorbed,expanded}_attention.cc
//
// A block of threads has one row of one head and goes over its keys alone. This is right for any
// batch, but leaves a GPU idle on a small one. The fast forms deal splits over blocks.

#include <cmath>

#include "kernels/cuda/cached.h"
#include "kernels/cuda/element.h"
#include "kernels/cuda/plan.h"
#include "kernels/kernels.h"

namespace janus::kernels::cuda {

// The number that is subtracted from scores before they are exponentiated, by the largest so far.
// If all scores are -infinity it is finite, so that they weigh 0: subtracting -infinity would give
// NaN.
JANUS_DEVICE inline float ShiftOf(float largest) {
  return largest == -INFINITY ? 0.0f : largest;
}

// Online softmax (Milakov & Gimelshein 2018) of one row and head over keys first..last. Thread t
// owns the elements t, t + kThreads, ... of the result, at most kOwned.
template <int kOwned>
struct SoftmaxRow {
  static constexpr int kThreads = 128;
  // Scores of a block of keys, then what they weigh.
  static constexpr int64_t kSharedBytes = int64_t{8} * kKeyBlock;

  struct State {
    float largest = -INFINITY;
    float total = 0.0f;
    float y[kOwned] = {};
  };

  // score(j), value(j, d) of positions first..last and elements below `width`; out(d, y). Reads
  // nothing of other positions. kSplits: whether states are merged at multiples of kKeySplit.
  // `sink`: a score without a value, or null.
  template <bool kSplits, class Block, class Score, class Value, class Out>
  JANUS_DEVICE static void Run(Block& block, int64_t first, int64_t last, int width,
                               const float* sink, Score score, Value value, Out out) {
    auto* const score_j = reinterpret_cast<float*>(block.shared());
    float* const weight_j = score_j + kKeyBlock;
    PerThread<State, kThreads> split;
    PerThread<State, kThreads> merged;
    for (int64_t j0 = first / kKeyBlock * kKeyBlock; j0 <= last; j0 += kKeyBlock) {
      const int begin = first > j0 ? static_cast<int>(first - j0) : 0;
      const int end = last - j0 < kKeyBlock - 1 ? static_cast<int>(last - j0) + 1 : kKeyBlock;
      block.Phase([&](int thread) {
        if (thread >= begin && thread < end) score_j[thread] = score(j0 + thread);
      });
      // Each thread finds the largest itself, so that no thread waits for another.
      block.Phase([&](int thread) {
        State& s = split[thread];
        float largest = s.largest;
        for (int j = begin; j < end; ++j) largest = fmaxf(largest, score_j[j]);
        const float shift = ShiftOf(largest);
        const float fade = expf(s.largest - shift);
        s.largest = largest;
        s.total *= fade;
        JANUS_UNROLL
        for (int i = 0; i < kOwned; ++i) s.y[i] *= fade;
        if (thread >= begin && thread < end) weight_j[thread] = expf(score_j[thread] - shift);
      });
      block.Phase([&](int thread) {
        State& s = split[thread];
        for (int j = begin; j < end; ++j) {
          const float p = weight_j[j];
          s.total += p;
          JANUS_UNROLL
          for (int i = 0; i < kOwned; ++i) {
            const int d = thread + i * kThreads;
            if (d < width) s.y[i] = fmaf(p, value(j0 + j, d), s.y[i]);
          }
        }
        const bool last_block = j0 + kKeyBlock > last;
        if (last_block || (kSplits && (j0 + kKeyBlock) % kKeySplit == 0)) {
          Merge(s, merged[thread]);
          s = State{};
        }
      });
    }
    block.Phase([&](int thread) {
      const State& s = merged[thread];
      float total = s.total;
      if (sink != nullptr) total += expf(*sink - ShiftOf(s.largest));
      JANUS_UNROLL
      for (int i = 0; i < kOwned; ++i) {
        const int d = thread + i * kThreads;
        if (d < width) out(d, s.y[i] / total);
      }
    });
  }

  JANUS_DEVICE static void Merge(const State& from, State& into) {
    const float largest = fmaxf(into.largest, from.largest);
    const float mine = expf(into.largest - ShiftOf(largest));
    const float theirs = expf(from.largest - ShiftOf(largest));
    into.largest = largest;
    into.total = into.total * mine + from.total * theirs;
    JANUS_UNROLL
    for (int i = 0; i < kOwned; ++i) into.y[i] = into.y[i] * mine + from.y[i] * theirs;
  }
};

// Block per (row, head), heads first.
struct PagedAttentionKernel {
  using Softmax = SoftmaxRow<kMaxHeadDim / 128>;
  static constexpr int kThreads = Softmax::kThreads;
  PagedAttentionArgs a;
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const KvCache& cache = a.cache;
    const int64_t t = block.index() / a.heads;
    const int64_t h = block.index() % a.heads;
    const int64_t g = h / (a.heads / cache.kv_heads);
    const int64_t width = cache.head_dim;
    const KvRow row = a.rows[t];
    const int64_t last = row.position;
    const int64_t windowed = last - a.sliding_window + 1;
    const int64_t first = a.chunk > 0                             ? last - row.position % a.chunk
                          : a.sliding_window == 0 || windowed < 0 ? 0
                                                                  : windowed;
    const float* const q =
        a.queries + t * (a.query_stride != 0 ? a.query_stride : a.heads * width) + h * width;
    const int64_t y = t * (a.y_stride != 0 ? a.y_stride : a.heads * width) + h * width;
    const auto cached = [&](int64_t j) {
      return CachedHead(cache, row.block_table[j / kPageTokens], g);
    };
    Softmax::template Run<true>(
        block, first, last, cache.head_dim, a.sinks != nullptr ? a.sinks + h : nullptr,
        [&](int64_t j) {
          const CachedHead of = cached(j);
          float dot = 0.0f;
          for (int64_t d = 0; d < width; ++d) dot = fmaf(q[d], of.Key(j % kPageTokens, d), dot);
          return dot * a.scale;
        },
        [&](int64_t j, int d) { return cached(j).Value(j % kPageTokens, d); },
        [&](int d, float value) { Store(a.y, a.y_dtype, y + d, value); });
  }
};
inline Plan PlanPagedAttention(const PagedAttentionArgs& a) {
  return {a.num_rows * a.heads, PagedAttentionKernel::kThreads,
          PagedAttentionKernel::Softmax::kSharedBytes, 0, 0};
}
// The least bytes of rows of different sequences: their keys and values once, queries and results.
inline int64_t PagedAttentionBytes(const PagedAttentionArgs& a, int64_t keys) {
  const int64_t width = a.cache.head_dim;
  const int64_t page = KvPageBytes(a.cache.dtype, a.cache.kv_heads, a.cache.head_dim);
  return keys * (page / kPageTokens) + a.num_rows * a.heads * width * (4 + SizeOf(a.y_dtype));
}

// Block per (row, head), heads first.
struct AbsorbedAttentionKernel {
  using Softmax = SoftmaxRow<kMaxLatentRank / 128>;
  static constexpr int kThreads = Softmax::kThreads;
  AbsorbedAttentionArgs a;
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const LatentCache& cache = a.cache;
    const int64_t t = block.index() / a.heads;
    const int64_t h = block.index() % a.heads;
    const int64_t head_stride =
        a.rope_query_head_stride != 0 ? a.rope_query_head_stride : cache.rope;
    const int64_t row_stride =
        a.rope_query_row_stride != 0 ? a.rope_query_row_stride : a.heads * head_stride;
    const KvRow row = a.rows[t];
    const float* const latent = a.latent_queries + (t * a.heads + h) * cache.rank;
    const float* const rope = a.rope_queries + t * row_stride + h * head_stride;
    float* const y = a.y + (t * a.heads + h) * cache.rank;
    const auto cached = [&](int64_t j, int64_t d) {
      return CachedLatent(cache, row.block_table[j / kPageTokens], j % kPageTokens, d);
    };
    Softmax::template Run<true>(
        block, 0, row.position, cache.rank, nullptr,
        [&](int64_t j) {
          float dot = 0.0f;
          for (int d = 0; d < cache.rank; ++d) dot = fmaf(latent[d], cached(j, d), dot);
          for (int d = 0; d < cache.rope; ++d) dot = fmaf(rope[d], cached(j, cache.rank + d), dot);
          return dot * a.scale;
        },
        cached, [&](int d, float value) { y[d] = value; });
  }
};
inline Plan PlanAbsorbedAttention(const AbsorbedAttentionArgs& a) {
  return {a.num_rows * a.heads, AbsorbedAttentionKernel::kThreads,
          AbsorbedAttentionKernel::Softmax::kSharedBytes, 0, 0};
}

// The least bytes of rows of different sequences: their latent vectors and rope keys once, queries
// and results.
inline int64_t AbsorbedAttentionBytes(const AbsorbedAttentionArgs& a, int64_t keys) {
  const int64_t entry = int64_t{a.cache.rank} + a.cache.rope;
  return keys * LatentEntryBytes(a.cache.dtype, a.cache.rank, a.cache.rope) +
         a.num_rows * a.heads * (entry + a.cache.rank) * int64_t{4};
}
// Of a row that sees `keys` keys, or of rows that together do.
inline int64_t AbsorbedAttentionFlops(const AbsorbedAttentionArgs& a, int64_t keys) {
  return 2 * keys * a.heads * (2 * int64_t{a.cache.rank} + a.cache.rope);
}

// Block per area of the workspace; it takes tasks (tile of 16 rows, head) as index, index + blocks,
// ... Rows of a tile that are neighbours of one sequence are a run, and share each block of keys
// and values that is expanded into the area.
struct ExpandedAttentionKernel {
  static constexpr int kThreads = 128;
  static constexpr int kRows = 16;
  static constexpr int64_t kSharedBytes = int64_t{4} * kRows * (kKeyBlock + 2);
  ExpandedAttentionArgs a;
  int64_t area_floats = 0;

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const int64_t tiles = (a.num_rows + kRows - 1) / kRows;
    for (int64_t task = block.index(); task < tiles * a.heads; task += block.blocks()) {
      const int64_t t0 = task / a.heads * kRows;
      const int64_t t_end = t0 + kRows < a.num_rows ? t0 + kRows : a.num_rows;
      int64_t begin = t0;
      while (begin < t_end) {
        int64_t end = begin + 1;
        while (end < t_end && a.rows[end].block_table == a.rows[begin].block_table) ++end;
        OneRun(block, task % a.heads, begin, static_cast<int>(end - begin));
        begin = end;
      }
    }
  }

  // Rows begin..begin+rows-1 of one head.
  template <class Block>
  JANUS_DEVICE void OneRun(Block& block, int64_t h, int64_t begin, int rows) const {
    const LatentCache& cache = a.cache;
    const int head_dim = a.nope_dim + cache.rope;
    const int values = a.value_dim;
    const int64_t query_stride = a.query_stride != 0 ? a.query_stride : int64_t{a.heads} * head_dim;
    float* const key_jd = static_cast<float*>(a.workspace) + block.index() * area_floats;
    float* const value_jv = key_jd + int64_t{kKeyBlock} * head_dim;
    float* const y_rv = value_jv + int64_t{kKeyBlock} * values;
    auto* const weight_rj = reinterpret_cast<float*>(block.shared());
    float* const largest_r = weight_rj + kRows * kKeyBlock;
    float* const total_r = largest_r + kRows;
    const KvRow* const row = a.rows + begin;
    const int32_t* const table = row[0].block_table;
    int64_t last = 0;
    for (int r = 0; r < rows; ++r) last = row[r].position > last ? row[r].position : last;

    block.Phase([&](int thread) {
      for (int i = thread; i < rows * values; i += kThreads) y_rv[i] = 0.0f;
      if (thread < rows) {
        largest_r[thread] = -INFINITY;
        total_r[thread] = 0.0f;
      }
    });
    for (int64_t j0 = 0; j0 <= last; j0 += kKeyBlock) {
      const int keys = last - j0 < kKeyBlock - 1 ? static_cast<int>(last - j0) + 1 : kKeyBlock;
      block.Phase([&](int thread) {
        const int wide = head_dim + values;
        for (int i = thread; i < keys * wide; i += kThreads) {
          const int j = i / wide;
          const int at = i % wide;
          const auto cached = [&](int64_t d) {
            return CachedLatent(cache, table[(j0 + j) / kPageTokens], (j0 + j) % kPageTokens, d);
          };
          if (at >= a.nope_dim && at < head_dim) {
            key_jd[j * head_dim + at] = cached(cache.rank + at - a.nope_dim);
            continue;
          }
          const int of_head = at < head_dim ? at : at - cache.rope;
          const int64_t weight = (h * (a.nope_dim + values) + of_head) * cache.rank;
          float sum = 0.0f;
          for (int d = 0; d < cache.rank; ++d) {
            sum = fmaf(cached(d), Load(a.expand, a.expand_dtype, weight + d), sum);
          }
          if (at < head_dim) {
            key_jd[j * head_dim + at] = sum;
          } else {
            value_jv[j * values + at - head_dim] = sum;
          }
        }
      });
      block.Phase([&](int thread) {
        for (int i = thread; i < rows * keys; i += kThreads) {
          const int r = i / keys;
          const int j = i % keys;
          if (j0 + j > row[r].position) continue;
          const float* const q = a.queries + (begin + r) * query_stride + h * head_dim;
          float dot = 0.0f;
          for (int d = 0; d < head_dim; ++d) dot = fmaf(q[d], key_jd[j * head_dim + d], dot);
          weight_rj[r * kKeyBlock + j] = dot * a.scale;
        }
      });
      // Each thread finds a row's largest and total for itself and fades what it owns of y; the
      // row's own state is written a phase later, when all have read it.
      block.Phase([&](int thread) {
        for (int i = thread; i < rows * values; i += kThreads) {
          const int r = i / values;
          const int own = Own(row[r].position, j0, keys);
          if (own == 0) continue;
          const float largest = Largest(weight_rj + r * kKeyBlock, own, largest_r[r]);
          const float shift = ShiftOf(largest);
          float y = y_rv[i] * expf(largest_r[r] - shift);
          for (int j = 0; j < own; ++j) {
            const float p = expf(weight_rj[r * kKeyBlock + j] - shift);
            y = fmaf(p, value_jv[j * values + i % values], y);
          }
          y_rv[i] = y;
        }
      });
      block.Phase([&](int thread) {
        if (thread >= rows) return;
        const int own = Own(row[thread].position, j0, keys);
        if (own == 0) return;
        const float* const score_j = weight_rj + thread * kKeyBlock;
        const float largest = Largest(score_j, own, largest_r[thread]);
        const float shift = ShiftOf(largest);
        float total = total_r[thread] * expf(largest_r[thread] - shift);
        for (int j = 0; j < own; ++j) total += expf(score_j[j] - shift);
        largest_r[thread] = largest;
        total_r[thread] = total;
      });
    }
    block.Phase([&](int thread) {
      for (int i = thread; i < rows * values; i += kThreads) {
        const int r = i / values;
        Store(a.y, a.y_dtype, ((begin + r) * a.heads + h) * values + i % values,
              y_rv[i] / total_r[r]);
      }
    });
  }

  // How many keys of the block a row at `position` sees.
  JANUS_DEVICE static int Own(int64_t position, int64_t j0, int keys) {
    if (position < j0) return 0;
    return position - j0 < keys - 1 ? static_cast<int>(position - j0) + 1 : keys;
  }
  JANUS_DEVICE static float Largest(const float* score_j, int count, float largest) {
    for (int j = 0; j < count; ++j) largest = fmaxf(largest, score_j[j]);
    return largest;
  }
};
// An area has the size for a thread of the CPU's team. A GPU needs a few hundred areas.
inline int64_t ExpandedAreaFloats(const ExpandedAttentionArgs& a) {
  return ExpandedAttentionWorkspaceBytes(a.nope_dim + a.cache.rope, a.value_dim, 1) / 4;
}
inline Plan PlanExpandedAttention(const ExpandedAttentionArgs& a) {
  const int64_t tasks = CeilDiv(a.num_rows, ExpandedAttentionKernel::kRows) * a.heads;
  const int64_t areas = a.workspace_bytes / 4 / ExpandedAreaFloats(a);
  return {std::min(tasks, areas), ExpandedAttentionKernel::kThreads,
          ExpandedAttentionKernel::kSharedBytes, 0, 0};
}

}  // namespace janus::kernels::cuda
