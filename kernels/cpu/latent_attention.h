// Attention over a latent cache, in both forms, and its writes.
//
// A block of 64 keys at absolute positions is four pages of 16 rows, keys and values alike; a row
// is what the cache holds (absorbed: one row serves all heads, as key and, without its last part,
// as value) or what was expanded from it for one head. Bits of a query: a score is the chain of
// dot.h, the rest as in paged_attention.h. Absorbed: splits of 1024 absolute positions, merged in
// order; a unit is some heads of neighbouring rows of one sequence. Expanded: blocks in order; a
// unit is one head of up to 512 rows of one sequence, which share the expansion.
//
// Numbers of fp8 become bf16, exactly, a block of keys at a time for all queries of a unit. The
// bits are those of a bf16 cache of the same numbers.
//
// fma is the limit of both forms, except of the absorbed one with few heads in bf16.

#pragma once

#include "kernels/cpu/dot.h"
#include "kernels/cpu/float8_pieces.h"
#include "kernels/cpu/online_softmax.h"

namespace janus::kernels::JANUS_ISA {
namespace {

constexpr int kLatentQueries = 16;  // computed together over one block
using LatentState = SoftmaxState<kMaxLatentRank>;

struct LatentShape {
  explicit JANUS_INLINE LatentShape(const LatentCache& cache)
      : size(Bytes(cache.dtype)),
        width(int64_t{cache.rank} + cache.rope),
        entry_bytes(LatentEntryBytes(cache.dtype, cache.rank, cache.rope)),
        page_bytes(cache.page_stride_bytes != 0 ? cache.page_stride_bytes
                                                : kPageTokens * entry_bytes) {}
  int64_t size;
  int64_t width;        // elements of a position
  int64_t entry_bytes;  // of it
  int64_t page_bytes;
};

JANUS_INLINE const char* LatentPage(const LatentCache& cache, const LatentShape& shape,
                                    const int32_t* block_table, int64_t page) {
  return static_cast<const char*>(cache.pages) + block_table[page] * shape.page_bytes;
}

// A position's numbers in fp8, from fp32 and to bf16.
void StoreEntry(const LatentCache& cache, const float* from, char* entry) {
  for (int64_t d = 0; d < cache.rank; d += kScaleBlock) {
    const float scale = StorePiece(from + d, Smaller(kScaleBlock, cache.rank - d), entry + d);
    std::memcpy(entry + LatentScalesAt(cache.rank) + d / kScaleBlock * 4, &scale, sizeof(scale));
  }
  char* const rope = entry + LatentRopeAt(cache.rank);
  for (int64_t d = 0; d < cache.rope; d += kLanes) {
    StoreUpTo(DType::kBFloat16, rope + d * 2,
              LoadUpTo(DType::kFloat32, from + cache.rank + d, cache.rope - d), cache.rope - d);
  }
}
void LoadLatent(const LatentCache& cache, const char* entry, uint16_t* to) {
  const auto* const scales = reinterpret_cast<const float*>(entry + LatentScalesAt(cache.rank));
  for (int64_t d = 0; d < cache.rank; d += kScaleBlock) {
    LoadPiece(entry + d, scales[d / kScaleBlock], Smaller(kScaleBlock, cache.rank - d), to + d);
  }
}

void LatentWritePart(const LatentWriteArgs& a, int part, int parts) {
  const Span rows = Share(a.num_rows, part, parts);
  const LatentShape shape(a.cache);
  const int64_t stride = a.entry_stride != 0 ? a.entry_stride : shape.width;
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const int64_t position = a.rows[t].position;
    char* to = static_cast<char*>(a.cache.pages) +
               a.rows[t].block_table[position / kPageTokens] * shape.page_bytes +
               position % kPageTokens * shape.entry_bytes;
    if (a.cache.dtype == DType::kFloat8E4M3) {
      StoreEntry(a.cache, a.entries + t * stride, to);
      continue;
    }
    for (int64_t d = 0; d < shape.width; d += kLanes) {
      const int64_t count = shape.width - d;
      StoreUpTo(a.cache.dtype, to + d * shape.size,
                LoadUpTo(DType::kFloat32, a.entries + t * stride + d, count), count);
    }
  }
}

// One block of 64 positions: where its pages of 16 rows begin.
struct KeyRows {
  const char* keys[kBlockPages];
  const char* values[kBlockPages];
  int64_t key_elements;    // from row to row, and as many of a score's dimensions
  int64_t value_elements;  // from row to row
  int64_t score_dim;
  int64_t value_dim;
};

// Up to 16 queries over one block: query i sees its first end[i] >= 1 keys. State i is largest[i],
// sum[i], o[i].
template <DType kType>
void AttendRows(const KeyRows& rows, const char* const* q, const int* end, int count, float scale,
                float* const* largest, float* const* sum, float* const* o) {
  int highest = 0;
  for (int i = 0; i < count; ++i) highest = end[i] > highest ? end[i] : highest;
  alignas(64) float scores[kLatentQueries][kKeyBlock];
  alignas(64) float dots[kLatentQueries * kColumns] = {};
  for (int p = 0; p * kPageTokens < highest; ++p) {
    const auto columns = static_cast<int>(Smaller(kPageTokens, highest - p * kPageTokens));
    DotBlock<Natural<DType::kFloat32, kType>>(q, count, rows.keys[p],
                                              rows.key_elements * Bytes(kType), columns,
                                              rows.score_dim, nullptr, dots);
    for (int i = 0; i < count; ++i) {
      Store(scores[i] + p * kLanes, Load(dots + i * kColumns) * Set(scale));
    }
  }
  const float* p[kLatentQueries];
  for (int i = 0; i < count; ++i) {
    UpdateState(scores[i], 0, end[i], rows.value_dim, *largest[i], *sum[i], o[i]);
    p[i] = scores[i];
  }
  // Four queries share the loads of the keys that all of them see.
  int i = 0;
  for (; i + 4 <= count; i += 4) {
    int shared = end[i];
    for (int j = i + 1; j < i + 4; ++j) shared = end[j] < shared ? end[j] : shared;
    AddValues<kType, 4>(rows.values, 0, shared, rows.value_elements, rows.value_dim, p + i, o + i);
    for (int j = i; j < i + 4; ++j) {
      if (shared == end[j]) continue;
      AddValues<kType, 1>(rows.values, shared, end[j], rows.value_elements, rows.value_dim, p + j,
                          o + j);
    }
  }
  for (; i < count; ++i) {
    AddValues<kType, 1>(rows.values, 0, end[i], rows.value_elements, rows.value_dim, p + i, o + i);
  }
}

// Rows from `row` on that are neighbours of one sequence, at most `most`.
JANUS_INLINE int64_t NeighbourRows(const KvRow* rows, int64_t num_rows, int64_t row, int64_t most) {
  int64_t end = row + 1;
  while (end < num_rows && end - row < most && rows[end].block_table == rows[row].block_table) {
    ++end;
  }
  return end - row;
}

// Calls visit(row, rows, first unit, end unit) for this part's share of `units` per group of rows,
// dealt by keys read.
template <class Visit>
JANUS_INLINE void ForNeighbourRows(const KvRow* rows, int64_t num_rows, int64_t most, int64_t units,
                                   int part, int parts, Visit visit) {
  const auto cost = [&](int64_t row, int64_t count) {
    int64_t keys = 0;
    for (int64_t t = row; t < row + count; ++t) keys += rows[t].position + kKeyBlock;
    return keys;
  };
  int64_t total = 0;
  for (int64_t row = 0; row < num_rows;) {
    const int64_t count = NeighbourRows(rows, num_rows, row, most);
    total += cost(row, count) * units;
    row += count;
  }
  CostShare share(total, part, parts);
  for (int64_t row = 0; row < num_rows;) {
    const int64_t count = NeighbourRows(rows, num_rows, row, most);
    const Span mine = share.Take(units, cost(row, count));
    if (mine.begin < mine.end) visit(row, count, mine.begin, mine.end);
    row += count;
  }
}

// ---- Absorbed

struct AbsorbedUnit {
  const int32_t* block_table;
  int count;
  int64_t last[kLatentQueries];
  int64_t highest;
  float* y[kLatentQueries];
  alignas(64) float q[kLatentQueries][kMaxLatentRank + kMaxHeadDim];
};

void GatherUnit(const AbsorbedAttentionArgs& a, int64_t row, int64_t rows, int64_t first_head,
                int64_t heads, AbsorbedUnit& unit) {
  const int64_t rank = a.cache.rank;
  const int64_t head_stride =
      a.rope_query_head_stride != 0 ? a.rope_query_head_stride : int64_t{a.cache.rope};
  const int64_t row_stride =
      a.rope_query_row_stride != 0 ? a.rope_query_row_stride : a.heads * head_stride;
  unit.block_table = a.rows[row].block_table;
  unit.count = 0;
  unit.highest = 0;
  for (int64_t t = row; t < row + rows; ++t) {
    unit.highest = Larger(unit.highest, a.rows[t].position);
    for (int64_t h = first_head; h < first_head + heads; ++h) {
      const int i = unit.count++;
      unit.last[i] = a.rows[t].position;
      unit.y[i] = a.y + (t * a.heads + h) * rank;
      std::memcpy(unit.q[i], a.latent_queries + (t * a.heads + h) * rank,
                  static_cast<size_t>(rank * 4));
      std::memcpy(unit.q[i] + rank, a.rope_queries + t * row_stride + h * head_stride,
                  static_cast<size_t>(a.cache.rope) * 4);
    }
  }
}

// Where a block of fp8 becomes bf16; of other formats nothing.
template <DType kType>
struct AbsorbedKeys {};
template <>
struct AbsorbedKeys<DType::kFloat8E4M3> {
  alignas(64) uint16_t of[kKeyBlock * (kMaxLatentRank + kMaxHeadDim)];
};

// States of the unit's queries that see keys of the split; the others are left untouched.
template <DType kType>
void AbsorbedSplit(const AbsorbedAttentionArgs& a, const LatentShape& shape,
                   const AbsorbedUnit& unit, int64_t split, AbsorbedKeys<kType>& decoded,
                   LatentState* states) {
  constexpr bool kIsScaled = kType == DType::kFloat8E4M3;
  const int64_t start = split * kKeySplit;
  const int64_t end = Smaller(start + kKeySplit, unit.highest + 1);
  for (int i = 0; i < unit.count; ++i) {
    if (unit.last[i] >= start) Clear(a.cache.rank, states[i]);
  }
  KeyRows rows;
  rows.key_elements = rows.value_elements = rows.score_dim = shape.width;
  rows.value_dim = a.cache.rank;
  for (int64_t block = start; block < end; block += kKeyBlock) {
    for (int64_t p = 0; p < kBlockPages && block + p * kPageTokens < end; ++p) {
      rows.keys[p] = rows.values[p] =
          LatentPage(a.cache, shape, unit.block_table, block / kPageTokens + p);
      if constexpr (kIsScaled) {
        uint16_t* const to = decoded.of + p * kPageTokens * shape.width;
        for (int64_t j = 0; j < Smaller(kPageTokens, end - block - p * kPageTokens); ++j) {
          const char* const entry = rows.keys[p] + j * shape.entry_bytes;
          LoadLatent(a.cache, entry, to + j * shape.width);
          std::memcpy(to + j * shape.width + a.cache.rank, entry + LatentRopeAt(a.cache.rank),
                      static_cast<size_t>(a.cache.rope) * 2);
        }
        rows.keys[p] = rows.values[p] = reinterpret_cast<const char*>(to);
      }
    }
    const char* q[kLatentQueries];
    int ends[kLatentQueries];
    float* largest[kLatentQueries];
    float* sum[kLatentQueries];
    float* o[kLatentQueries];
    int count = 0;
    for (int i = 0; i < unit.count; ++i) {
      if (unit.last[i] < block) continue;
      q[count] = reinterpret_cast<const char*>(unit.q[i]);
      ends[count] = static_cast<int>(Smaller(kKeyBlock, unit.last[i] + 1 - block));
      largest[count] = &states[i].largest;
      sum[count] = &states[i].sum;
      o[count] = states[i].o;
      ++count;
    }
    AttendRows<kIsScaled ? DType::kBFloat16 : kType>(rows, q, ends, count, a.scale, largest, sum,
                                                     o);
  }
}

template <DType kType>
void AbsorbedUnitAll(const AbsorbedAttentionArgs& a, const LatentShape& shape,
                     const AbsorbedUnit& unit) {
  LatentState all[kLatentQueries];
  LatentState later[kLatentQueries];
  const int64_t rank = a.cache.rank;
  AbsorbedKeys<kType> decoded;
  AbsorbedSplit<kType>(a, shape, unit, 0, decoded, all);
  for (int64_t split = 1; split <= unit.highest / kKeySplit; ++split) {
    AbsorbedSplit<kType>(a, shape, unit, split, decoded, later);
    for (int i = 0; i < unit.count; ++i) {
      if (unit.last[i] >= split * kKeySplit) MergeState(later[i], rank, all[i]);
    }
  }
  for (int i = 0; i < unit.count; ++i) {
    for (int64_t d = 0; d < rank; d += kLanes) {
      StoreUpTo(DType::kFloat32, unit.y[i] + d, Load(all[i].o + d) / Set(all[i].sum), rank - d);
    }
  }
}

void AbsorbedAttentionPart(const AbsorbedAttentionArgs& a, int part, int parts) {
  const LatentShape shape(a.cache);
  // As many queries to a unit as go, but units for every thread.
  int64_t heads = Smaller(a.heads, kLatentQueries);
  while (heads > 1 && a.num_rows * CeilDiv(a.heads, heads) < parts) heads = CeilDiv(heads, 2);
  const int64_t units = CeilDiv(a.heads, heads);
  const int64_t most_rows = a.num_rows < parts ? 1 : kLatentQueries / heads;
  AbsorbedUnit unit;
  ForNeighbourRows(a.rows, a.num_rows, most_rows, units, part, parts,
                   [&](int64_t row, int64_t rows, int64_t begin, int64_t end) {
                     for (int64_t index = begin; index < end; ++index) {
                       const int64_t first = index * heads;
                       GatherUnit(a, row, rows, first, Smaller(heads, a.heads - first), unit);
                       if (a.cache.dtype == DType::kFloat32) {
                         AbsorbedUnitAll<DType::kFloat32>(a, shape, unit);
                       } else if (a.cache.dtype == DType::kFloat8E4M3) {
                         AbsorbedUnitAll<DType::kFloat8E4M3>(a, shape, unit);
                       } else {
                         AbsorbedUnitAll<DType::kBFloat16>(a, shape, unit);
                       }
                     }
                   });
}

// ---- Expanded

// A thread's part of the workspace; ExpandedAttentionWorkspaceBytes sums it up.
struct ExpandedSpace {
  JANUS_INLINE ExpandedSpace(const ExpandedAttentionArgs& a, int part)
      : key_elements(CeilDiv(a.nope_dim + a.cache.rope, kLanes) * kLanes),
        value_elements(CeilDiv(a.value_dim, kLanes) * kLanes) {
    const int64_t elements =
        kKeyBlock * (key_elements + value_elements) + kExpandedRows * (value_elements + kLanes);
    keys = static_cast<float*>(a.workspace) + elements * part;
    values = keys + kKeyBlock * key_elements;
    o = values + kKeyBlock * value_elements;
    largest = o + kExpandedRows * value_elements;
    sum = largest + kExpandedRows;
  }
  int64_t key_elements;
  int64_t value_elements;
  float* keys;     // [64, key_elements]
  float* values;   // [64, value_elements]
  float* o;        // [rows, value_elements]
  float* largest;  // [rows]
  float* sum;      // [rows]
};

// to[key][0..outputs-1] = weight [outputs, rank] times each of the cached rows, which are of
// `type`.
JANUS_INLINE void ExpandRows(const ExpandedAttentionArgs& a, DType type, const char* const* cached,
                             int count, const char* weight, int64_t outputs, float* to,
                             int64_t to_elements) {
  const DotBlockFn dot = DotBlockOf(type, a.expand_dtype);
  const int64_t w_row = a.cache.rank * Bytes(a.expand_dtype);
  alignas(64) float dots[kKeyBlock * kColumns] = {};
  static_assert(kKeyBlock <= kRowChunk);
  for (int64_t column = 0; column < outputs; column += kColumns) {
    const int64_t columns = Smaller(kColumns, outputs - column);
    dot(cached, count, weight + column * w_row, w_row, static_cast<int>(columns), a.cache.rank,
        nullptr, dots);
    for (int j = 0; j < count; ++j) {
      StoreUpTo(DType::kFloat32, to + j * to_elements + column, Load(dots + j * kColumns), columns);
    }
  }
}

// Keys and values of one head for the first `count` positions of a block.
void ExpandBlock(const ExpandedAttentionArgs& a, const LatentShape& shape,
                 const int32_t* block_table, int64_t block, int count, int64_t head,
                 const ExpandedSpace& space) {
  const char* cached[kKeyBlock];
  alignas(64) uint16_t decoded[kKeyBlock * kMaxLatentRank];  // of fp8
  const bool is_scaled = a.cache.dtype == DType::kFloat8E4M3;
  const DType type = is_scaled ? DType::kBFloat16 : a.cache.dtype;
  const int64_t rope_at = is_scaled ? LatentRopeAt(a.cache.rank) : a.cache.rank * shape.size;
  for (int j = 0; j < count; ++j) {
    cached[j] = LatentPage(a.cache, shape, block_table, (block + j) / kPageTokens) +
                j % kPageTokens * shape.entry_bytes;
    const char* rope = cached[j] + rope_at;
    for (int64_t d = 0; d < a.cache.rope; d += kLanes) {
      StoreUpTo(DType::kFloat32, space.keys + j * space.key_elements + a.nope_dim + d,
                LoadUpTo(type, rope + d * Bytes(type), a.cache.rope - d), a.cache.rope - d);
    }
  }
  if (is_scaled) {
    for (int j = 0; j < count; ++j) {
      LoadLatent(a.cache, cached[j], decoded + j * a.cache.rank);
      cached[j] = reinterpret_cast<const char*>(decoded + j * a.cache.rank);
    }
  }
  const int64_t w_row = a.cache.rank * Bytes(a.expand_dtype);
  const char* weight =
      static_cast<const char*>(a.expand) + head * (int64_t{a.nope_dim} + a.value_dim) * w_row;
  ExpandRows(a, type, cached, count, weight, a.nope_dim, space.keys, space.key_elements);
  ExpandRows(a, type, cached, count, weight + a.nope_dim * w_row, a.value_dim, space.values,
             space.value_elements);
}

void ExpandedUnit(const ExpandedAttentionArgs& a, const LatentShape& shape, int64_t row,
                  int64_t rows, int64_t head, const ExpandedSpace& space) {
  const int64_t head_dim = int64_t{a.nope_dim} + a.cache.rope;
  const int64_t query_stride = a.query_stride != 0 ? a.query_stride : a.heads * head_dim;
  int64_t highest = 0;
  for (int64_t i = 0; i < rows; ++i) {
    highest = Larger(highest, a.rows[row + i].position);
    space.largest[i] = kMinusInfinity;
    space.sum[i] = 0.0f;
    for (int64_t d = 0; d < space.value_elements; d += kLanes) {
      Store(space.o + i * space.value_elements + d, Zero());
    }
  }
  KeyRows block_rows;
  block_rows.key_elements = space.key_elements;
  block_rows.value_elements = space.value_elements;
  block_rows.score_dim = head_dim;
  block_rows.value_dim = a.value_dim;
  for (int p = 0; p < kBlockPages; ++p) {
    block_rows.keys[p] =
        reinterpret_cast<const char*>(space.keys + p * kPageTokens * space.key_elements);
    block_rows.values[p] =
        reinterpret_cast<const char*>(space.values + p * kPageTokens * space.value_elements);
  }
  for (int64_t block = 0; block <= highest; block += kKeyBlock) {
    ExpandBlock(a, shape, a.rows[row].block_table, block,
                static_cast<int>(Smaller(kKeyBlock, highest + 1 - block)), head, space);
    const char* q[kLatentQueries];
    int ends[kLatentQueries];
    float* largest[kLatentQueries];
    float* sum[kLatentQueries];
    float* o[kLatentQueries];
    int count = 0;
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t last = a.rows[row + i].position;
      if (last >= block) {
        q[count] =
            reinterpret_cast<const char*>(a.queries + (row + i) * query_stride + head * head_dim);
        ends[count] = static_cast<int>(Smaller(kKeyBlock, last + 1 - block));
        largest[count] = space.largest + i;
        sum[count] = space.sum + i;
        o[count] = space.o + i * space.value_elements;
        ++count;
      }
      if (count == kLatentQueries || (i + 1 == rows && count > 0)) {
        AttendRows<DType::kFloat32>(block_rows, q, ends, count, a.scale, largest, sum, o);
        count = 0;
      }
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t at = ((row + i) * a.heads + head) * a.value_dim;
    for (int64_t d = 0; d < a.value_dim; d += kLanes) {
      StoreUpTo(a.y_dtype, static_cast<char*>(a.y) + (at + d) * Bytes(a.y_dtype),
                Load(space.o + i * space.value_elements + d) / Set(space.sum[i]), a.value_dim - d);
    }
  }
}

void ExpandedAttentionPart(const ExpandedAttentionArgs& a, int part, int parts) {
  const LatentShape shape(a.cache);
  const ExpandedSpace space(a, part);
  ForNeighbourRows(a.rows, a.num_rows, kExpandedRows, a.heads, part, parts,
                   [&](int64_t row, int64_t rows, int64_t begin, int64_t end) {
                     for (int64_t head = begin; head < end; ++head) {
                       ExpandedUnit(a, shape, row, rows, head, space);
                     }
                   });
}

}  // namespace
}  // namespace janus::kernels::JANUS_ISA
