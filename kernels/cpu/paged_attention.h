// Attention over a paged cache. A unit is one kv head with up to 16 queries that read it: the heads
// of its group, for neighbouring rows of one sequence. Keys and values are loaded once per unit and
// block. For few rows the read of keys and values is the limit, for chunks of a prompt fma.
//
// These rules fix the bits of a query:
//   - A score is one fma chain over d.
//   - A block of 64 keys at absolute positions gives a maximum and a sum by the trees of lanes.h.
//   - Values are added key by key, only for keys that the query sees (a masked key would still turn
//     -0 into +0 or add a NaN).
//   - Blocks go in order within a split of kKeySplit absolute positions, and splits in order.
// No rule depends on the unit. In fp8, elements are multiplied and added: the score is multiplied
// by the key's scale afterwards, and the weight of a value by the value's scale before. Scales are
// powers of 2, so this gives the bits of a bf16 cache of the same numbers.

#pragma once

#include "kernels/cpu/deal.h"
#include "kernels/cpu/online_softmax.h"

namespace janus::kernels::JANUS_ISA {
namespace {

constexpr int kUnitQueries = 16;

struct AttentionShape {
  explicit JANUS_INLINE AttentionShape(const PagedAttentionArgs& a)
      : size(Bytes(a.cache.dtype)),
        kv_heads(a.cache.kv_heads),
        head_dim(a.cache.head_dim),
        page_bytes(a.cache.page_stride_bytes != 0
                       ? a.cache.page_stride_bytes
                       : KvPageBytes(a.cache.dtype, a.cache.kv_heads, a.cache.head_dim)),
        scales_at(KvElementBytes(a.cache.dtype, a.cache.kv_heads, a.cache.head_dim)),
        query_stride(a.query_stride != 0 ? a.query_stride : a.heads * head_dim),
        y_stride(a.y_stride != 0 ? a.y_stride : a.heads * head_dim),
        group(a.heads / kv_heads),
        heads_per_unit(Smaller(group, kUnitQueries)),
        rows_per_unit(kUnitQueries / heads_per_unit),
        head_chunks(CeilDiv(group, heads_per_unit)),
        units_per_rows(kv_heads * head_chunks) {}

  int64_t size;
  int64_t kv_heads;
  int64_t head_dim;
  int64_t page_bytes;
  int64_t scales_at;  // in a page, of fp8
  int64_t query_stride;
  int64_t y_stride;
  int64_t group;  // query heads per kv head
  int64_t heads_per_unit;
  int64_t rows_per_unit;
  int64_t head_chunks;     // units per kv head, where a group is larger than a unit
  int64_t units_per_rows;  // units of one group of rows
};

// The queries of a unit, gathered, with the keys each sees.
struct AttentionUnit {
  const int32_t* block_table;
  int64_t kv_head;
  int64_t first_row;
  int64_t rows;
  int64_t first_head;
  int64_t heads;
  int count;                    // rows * heads, ordered by row, then head
  int64_t first[kUnitQueries];  // key positions first..last
  int64_t last[kUnitQueries];
  int64_t lowest;  // over all queries
  int64_t highest;
  alignas(64) float q[kUnitQueries][kMaxHeadDim];
};

using AttentionState = SoftmaxState<kMaxHeadDim>;

JANUS_INLINE int64_t FirstKey(const PagedAttentionArgs& a, int64_t position) {
  if (a.chunk > 0) return position / a.chunk * a.chunk;
  return a.sliding_window == 0 ? 0 : Larger(0, position - a.sliding_window + 1);
}

// The rows from `row` on that go into one unit: neighbours of one sequence.
JANUS_INLINE int64_t RowsOfUnit(const PagedAttentionArgs& a, const AttentionShape& shape,
                                int64_t row) {
  int64_t end = row + 1;
  while (end < a.num_rows && end - row < shape.rows_per_unit &&
         a.rows[end].block_table == a.rows[row].block_table) {
    ++end;
  }
  return end - row;
}

// Which of a group of rows' units: kv head, then chunk of its heads.
void GatherUnit(const PagedAttentionArgs& a, const AttentionShape& shape, int64_t row, int64_t rows,
                int64_t index, AttentionUnit& unit) {
  const int64_t chunk = index % shape.head_chunks;
  unit.block_table = a.rows[row].block_table;
  unit.kv_head = index / shape.head_chunks;
  unit.first_row = row;
  unit.rows = rows;
  unit.first_head = unit.kv_head * shape.group + chunk * shape.heads_per_unit;
  unit.heads = Smaller(shape.heads_per_unit, shape.group - chunk * shape.heads_per_unit);
  unit.count = static_cast<int>(rows * unit.heads);
  unit.lowest = INT64_MAX;
  unit.highest = 0;
  for (int i = 0; i < unit.count; ++i) {
    const int64_t t = row + i / unit.heads;
    const int64_t head = unit.first_head + i % unit.heads;
    unit.last[i] = a.rows[t].position;
    unit.first[i] = FirstKey(a, unit.last[i]);
    unit.lowest = Smaller(unit.lowest, unit.first[i]);
    unit.highest = Larger(unit.highest, unit.last[i]);
    std::memcpy(unit.q[i], a.queries + t * shape.query_stride + head * shape.head_dim,
                static_cast<size_t>(shape.head_dim * 4));
  }
}

// scores[q][key] = scale * q.k for kQueries queries and kPages pages of one block. Where `ahead` is
// not null, the same places of those slabs are requested meanwhile: pages lie anywhere and a slab
// of one head is about 4 KiB, too short for the hardware to foresee.
template <DType kType, int kQueries, int kPages>
JANUS_INLINE void ScoreTile(const float* const* q, const char* const* keys,
                            const char* const* ahead, int64_t head_dim, V16 scale,
                            float* const* scores) {
  V16 acc[kQueries][kPages];
  JANUS_UNROLL for (int i = 0; i < kQueries; ++i) {
    JANUS_UNROLL for (int p = 0; p < kPages; ++p) acc[i][p] = Zero();
  }
  for (int64_t d = 0; d < head_dim; ++d) {
    if (ahead != nullptr) {
      JANUS_UNROLL for (int p = 0; p < kPages; ++p) {
        _mm_prefetch(ahead[p] + d * kPageTokens * Bytes(kType), _MM_HINT_T0);
      }
    }
    V16 k[kPages];
    JANUS_UNROLL for (int p = 0; p < kPages; ++p) {
      k[p] = LoadAs<kType>(keys[p] + d * kPageTokens * Bytes(kType));
    }
    JANUS_UNROLL for (int i = 0; i < kQueries; ++i) {
      const V16 x = Set(q[i][d]);
      JANUS_UNROLL for (int p = 0; p < kPages; ++p) acc[i][p] = Fma(x, k[p], acc[i][p]);
    }
  }
  JANUS_UNROLL for (int i = 0; i < kQueries; ++i) {
    JANUS_UNROLL for (int p = 0; p < kPages; ++p) {
      Store(scores[i] + p * kLanes, acc[i][p] * scale);
    }
  }
}

template <DType kType, int kQueries>
JANUS_INLINE void ScoreQueries(const float* const* q, const char* const* keys,
                               const char* const* ahead, int pages, int64_t head_dim, V16 scale,
                               float* const* scores) {
#if JANUS_WIDE
  constexpr int kPages = 4;
#else
  constexpr int kPages = kQueries == 1 ? 4 : (kQueries == 2 ? 2 : 1);
#endif
  float* at[kQueries];
  int p = 0;
  for (; p + kPages <= pages; p += kPages) {
    for (int i = 0; i < kQueries; ++i) at[i] = scores[i] + p * kLanes;
    ScoreTile<kType, kQueries, kPages>(q, keys + p, ahead == nullptr ? nullptr : ahead + p,
                                       head_dim, scale, at);
  }
  for (; p < pages; ++p) {
    for (int i = 0; i < kQueries; ++i) at[i] = scores[i] + p * kLanes;
    ScoreTile<kType, kQueries, 1>(q, keys + p, ahead == nullptr ? nullptr : ahead + p, head_dim,
                                  scale, at);
  }
}

// Requests the keys of a block that comes next.
JANUS_INLINE void RequestKeys(const PagedAttentionArgs& a, const AttentionShape& shape,
                              const AttentionUnit& unit, int64_t block_start) {
  const int64_t bytes = shape.head_dim * kPageTokens * shape.size;
  for (int64_t key = block_start; key < block_start + kKeyBlock && key <= unit.highest;
       key += kPageTokens) {
    const char* keys = static_cast<const char*>(a.cache.pages) +
                       unit.block_table[key / kPageTokens] * shape.page_bytes +
                       unit.kv_head * bytes;
    for (int64_t at = 0; at < bytes; at += 64) _mm_prefetch(keys + at, _MM_HINT_T1);
  }
}

// Up to four queries of a unit over one block; the first ones request what is read next.
template <DType kType, int kQueries>
void AttendBlock(const PagedAttentionArgs& a, const AttentionShape& shape,
                 const AttentionUnit& unit, const int* members, int64_t block_start, bool is_first,
                 AttentionState* states) {
  int begin[kQueries];
  int end[kQueries];
  int lowest = kKeyBlock;
  int highest = 0;
  int shared_begin = 0;
  int shared_end = kKeyBlock;
  for (int i = 0; i < kQueries; ++i) {
    begin[i] = static_cast<int>(Larger(0, unit.first[members[i]] - block_start));
    end[i] = static_cast<int>(Smaller(kKeyBlock, unit.last[members[i]] + 1 - block_start));
    lowest = begin[i] < lowest ? begin[i] : lowest;
    highest = end[i] > highest ? end[i] : highest;
    shared_begin = begin[i] > shared_begin ? begin[i] : shared_begin;
    shared_end = end[i] < shared_end ? end[i] : shared_end;
  }
  // Only pages with a key that one of them sees exist for sure.
  const int first_page = lowest / kPageTokens;
  const int end_page = (highest + kPageTokens - 1) / kPageTokens;
  constexpr bool kIsScaled = kType == DType::kFloat8E4M3;
  const char* keys[kBlockPages];
  const char* values[kBlockPages];
  [[maybe_unused]] const float* key_scales[kBlockPages];
  [[maybe_unused]] const float* value_scales[kBlockPages];
  for (int p = first_page; p < end_page; ++p) {
    const char* page = static_cast<const char*>(a.cache.pages) +
                       unit.block_table[block_start / kPageTokens + p] * shape.page_bytes;
    keys[p] = page + unit.kv_head * shape.head_dim * kPageTokens * shape.size;
    values[p] = page + (shape.kv_heads + unit.kv_head) * kPageTokens * shape.head_dim * shape.size;
    if constexpr (kIsScaled) {
      key_scales[p] =
          reinterpret_cast<const float*>(page + shape.scales_at) + unit.kv_head * kPageTokens;
      value_scales[p] = key_scales[p] + shape.kv_heads * kPageTokens;
    }
  }

  alignas(64) float scores[kQueries][kKeyBlock];
  const float* q[kQueries];
  float* to[kQueries];
  float* o[kQueries];
  for (int i = 0; i < kQueries; ++i) {
    q[i] = unit.q[members[i]];
    to[i] = scores[i] + first_page * kPageTokens;
    o[i] = states[members[i]].o;
  }
  ScoreQueries<kType, kQueries>(q, keys + first_page, is_first ? values + first_page : nullptr,
                                end_page - first_page, shape.head_dim,
                                Set(kLoadsOf<kType> * a.scale), to);
  if constexpr (kIsScaled) {
    for (int p = first_page; p < end_page; ++p) {
      const V16 scale = Load(key_scales[p]);
      for (int i = 0; i < kQueries; ++i) {
        Store(scores[i] + p * kLanes, Load(scores[i] + p * kLanes) * scale);
      }
    }
  }
  if (is_first) RequestKeys(a, shape, unit, block_start + kKeyBlock);
  const float* p[kQueries];
  for (int i = 0; i < kQueries; ++i) {
    AttentionState& state = states[members[i]];
    UpdateState(scores[i], begin[i], end[i], shape.head_dim, state.largest, state.sum, state.o);
    p[i] = scores[i];
  }
  if constexpr (kIsScaled) {
    for (int page = first_page; page < end_page; ++page) {
      const V16 scale = Load(value_scales[page]);
      for (int i = 0; i < kQueries; ++i) {
        float* const of_page = scores[i] + page * kLanes;
        Store(of_page, Load(of_page) * Set(kLoadsOf<kType>) * scale);
      }
    }
  }

  // Keys in order for each query: what it alone sees before, what all see, what it alone sees
  // after.
  if (shared_begin >= shared_end) {
    for (int i = 0; i < kQueries; ++i) {
      AddValues<kType, 1>(values, begin[i], end[i], shape.head_dim, shape.head_dim, p + i, o + i);
    }
    return;
  }
  for (int i = 0; i < kQueries; ++i) {
    if (begin[i] < shared_begin) {
      AddValues<kType, 1>(values, begin[i], shared_begin, shape.head_dim, shape.head_dim, p + i,
                          o + i);
    }
  }
  AddValues<kType, kQueries>(values, shared_begin, shared_end, shape.head_dim, shape.head_dim, p,
                             o);
  for (int i = 0; i < kQueries; ++i) {
    if (shared_end < end[i]) {
      AddValues<kType, 1>(values, shared_end, end[i], shape.head_dim, shape.head_dim, p + i, o + i);
    }
  }
}

JANUS_INLINE bool SeesAny(const AttentionUnit& unit, int query, int64_t start, int64_t length) {
  return unit.first[query] < start + length && unit.last[query] >= start;
}

// States of all queries of a unit over one split. Those that see none of its keys are left
// untouched.
template <DType kType>
void AttendSplit(const PagedAttentionArgs& a, const AttentionShape& shape,
                 const AttentionUnit& unit, int64_t split, AttentionState* states) {
  const int64_t start = split * kKeySplit;
  for (int i = 0; i < unit.count; ++i) {
    if (!SeesAny(unit, i, start, kKeySplit)) continue;
    Clear(shape.head_dim, states[i]);
  }
  const int64_t first_block = Larger(start, unit.lowest / kKeyBlock * kKeyBlock);
  const int64_t end = Smaller(start + kKeySplit, unit.highest + 1);
  for (int64_t block = first_block; block < end; block += kKeyBlock) {
    int members[4];
    int count = 0;
    bool is_first = true;
    for (int i = 0; i < unit.count; ++i) {
      if (SeesAny(unit, i, block, kKeyBlock)) members[count++] = i;
      if (count == 4) {
        AttendBlock<kType, 4>(a, shape, unit, members, block, is_first, states);
        count = 0;
        is_first = false;
      }
    }
    if (count == 3) AttendBlock<kType, 3>(a, shape, unit, members, block, is_first, states);
    if (count == 2) AttendBlock<kType, 2>(a, shape, unit, members, block, is_first, states);
    if (count == 1) AttendBlock<kType, 1>(a, shape, unit, members, block, is_first, states);
  }
}

JANUS_INLINE void AttendSplit(const PagedAttentionArgs& a, const AttentionShape& shape,
                              const AttentionUnit& unit, int64_t split, AttentionState* states) {
  if (a.cache.dtype == DType::kFloat32) {
    AttendSplit<DType::kFloat32>(a, shape, unit, split, states);
  } else if (a.cache.dtype == DType::kFloat8E4M3) {
    AttendSplit<DType::kFloat8E4M3>(a, shape, unit, split, states);
  } else {
    AttendSplit<DType::kBFloat16>(a, shape, unit, split, states);
  }
}

JANUS_INLINE void WriteRow(const PagedAttentionArgs& a, const AttentionShape& shape,
                           const AttentionUnit& unit, int query, const AttentionState& state) {
  const int64_t t = unit.first_row + query / unit.heads;
  const int64_t head = unit.first_head + query % unit.heads;
  const int64_t at = t * shape.y_stride + head * shape.head_dim;
  V16 sum = Set(state.sum);
  if (a.sinks != nullptr) sum = sum + Exp(Set(a.sinks[head] - ShiftOf(state.largest)));
  for (int64_t d = 0; d < shape.head_dim; d += kLanes) {
    StoreUpTo(a.y_dtype, static_cast<char*>(a.y) + (at + d) * Bytes(a.y_dtype),
              Load(state.o + d) / sum, shape.head_dim - d);
  }
}

// Calls visit(row, rows, first unit, end unit) for this part's share, dealt by keys read.
template <class Visit>
JANUS_INLINE void ForRowGroups(const PagedAttentionArgs& a, const AttentionShape& shape, int part,
                               int parts, Visit visit) {
  // A block of keys is the least that is worked on; copying the queries costs about as much.
  const auto cost = [&](int64_t row, int64_t rows) {
    int64_t keys = 0;
    for (int64_t t = row; t < row + rows; ++t) {
      keys += a.rows[t].position + 1 - FirstKey(a, a.rows[t].position) + kKeyBlock;
    }
    return keys;
  };
  int64_t total = 0;
  for (int64_t row = 0; row < a.num_rows;) {
    const int64_t rows = RowsOfUnit(a, shape, row);
    total += cost(row, rows) * shape.units_per_rows;
    row += rows;
  }
  CostShare share(total, part, parts);
  for (int64_t row = 0; row < a.num_rows;) {
    const int64_t rows = RowsOfUnit(a, shape, row);
    const Span mine = share.Take(shape.units_per_rows, cost(row, rows));
    if (mine.begin < mine.end) visit(row, rows, mine.begin, mine.end);
    row += rows;
  }
}

void PagedAttentionPart(const PagedAttentionArgs& a, int part, int parts) {
  const AttentionShape shape(a);
  AttentionUnit unit;
  AttentionState all[kUnitQueries];
  AttentionState later[kUnitQueries];
  ForRowGroups(a, shape, part, parts, [&](int64_t row, int64_t rows, int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      GatherUnit(a, shape, row, rows, index, unit);
      const int64_t last_split = unit.highest / kKeySplit;
      for (int64_t split = unit.lowest / kKeySplit; split <= last_split; ++split) {
        // A query's first split is its state so far; the others are merged into it.
        AttendSplit(a, shape, unit, split, later);
        for (int i = 0; i < unit.count; ++i) {
          if (!SeesAny(unit, i, split * kKeySplit, kKeySplit)) continue;
          if (unit.first[i] >= split * kKeySplit) {
            CopyState(later[i], shape.head_dim, all[i]);
          } else {
            MergeState(later[i], shape.head_dim, all[i]);
          }
        }
      }
      for (int i = 0; i < unit.count; ++i) WriteRow(a, shape, unit, i, all[i]);
    }
  });
}

// The split form, for fewer units than a team needs: each split of a unit is a separate task. Its
// states go to the workspace, and then the states of each unit are merged in order. States and
// merges are the same as without splitting, and so are the bits.

// Tasks (unit, split) of a group of rows: units_per_rows times the splits its rows see.
JANUS_INLINE Span SplitsOfRows(const PagedAttentionArgs& a, int64_t row, int64_t rows) {
  int64_t lowest = INT64_MAX;
  int64_t highest = 0;
  for (int64_t t = row; t < row + rows; ++t) {
    lowest = Smaller(lowest, FirstKey(a, a.rows[t].position));
    highest = Larger(highest, a.rows[t].position);
  }
  return {lowest / kKeySplit, highest / kKeySplit + 1};
}

// Workspace of the split form; 0 where it would not pay.
int64_t PagedAttentionSplitBytes(const PagedAttentionArgs& a, int parts) {
  const AttentionShape shape(a);
  int64_t units = 0;
  int64_t tasks = 0;
  int64_t states = 0;
  for (int64_t row = 0; row < a.num_rows;) {
    const int64_t rows = RowsOfUnit(a, shape, row);
    const Span splits = SplitsOfRows(a, row, rows);
    units += shape.units_per_rows;
    tasks += shape.units_per_rows * (splits.end - splits.begin);
    states += shape.units_per_rows * (splits.end - splits.begin) * rows * shape.heads_per_unit;
    row += rows;
  }
  const bool pays = units < 2 * parts && tasks > units;
  return pays ? states * static_cast<int64_t>(sizeof(AttentionState)) : 0;
}

void PagedAttentionSplits(const PagedAttentionArgs& a, int part, int parts) {
  const AttentionShape shape(a);
  AttentionUnit unit;
  auto* states = static_cast<AttentionState*>(a.workspace);
  int64_t task = 0;
  for (int64_t row = 0; row < a.num_rows;) {
    const int64_t rows = RowsOfUnit(a, shape, row);
    const Span splits = SplitsOfRows(a, row, rows);
    for (int64_t index = 0; index < shape.units_per_rows; ++index) {
      bool gathered = false;
      for (int64_t split = splits.begin; split < splits.end; ++split) {
        // Splits cost about the same, so they are dealt in turn.
        if (task++ % parts == part) {
          if (!gathered) GatherUnit(a, shape, row, rows, index, unit);
          gathered = true;
          AttendSplit(a, shape, unit, split, states);
        }
        states += rows * shape.heads_per_unit;
      }
    }
    row += rows;
  }
}

void PagedAttentionMerge(const PagedAttentionArgs& a, int part, int parts) {
  const AttentionShape shape(a);
  AttentionUnit unit;
  AttentionState all;
  const auto* states = static_cast<const AttentionState*>(a.workspace);
  int64_t task = 0;
  for (int64_t row = 0; row < a.num_rows;) {
    const int64_t rows = RowsOfUnit(a, shape, row);
    const Span splits = SplitsOfRows(a, row, rows);
    const int64_t states_per_split = rows * shape.heads_per_unit;
    for (int64_t index = 0; index < shape.units_per_rows; ++index) {
      if (task++ % parts == part) {
        GatherUnit(a, shape, row, rows, index, unit);
        for (int i = 0; i < unit.count; ++i) {
          int64_t split = unit.first[i] / kKeySplit;
          all = states[(split - splits.begin) * states_per_split + i];
          for (++split; split <= unit.last[i] / kKeySplit; ++split) {
            MergeState(states[(split - splits.begin) * states_per_split + i], shape.head_dim, all);
          }
          WriteRow(a, shape, unit, i, all);
        }
      }
      states += states_per_split * (splits.end - splits.begin);
    }
    row += rows;
  }
}

}  // namespace
}  // namespace janus::kernels::JANUS_ISA
