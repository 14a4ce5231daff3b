// Online softmax (Milakov & Gimelshein 2018) over blocks of 64 keys: what the attention kernels
// share. Values are added key by key, only keys that the query sees (a masked key would still turn
// -0 into +0 or add a NaN).

#pragma once

#include "kernels/cpu/deal.h"
#include "kernels/cpu/lanes.h"

namespace janus::kernels::JANUS_ISA {
namespace {

constexpr int kBlockPages = kKeyBlock / kPageTokens;
static_assert(kPageTokens == kLanes && kMaxHeadDim % kLanes == 0 && kMaxLatentRank % kLanes == 0);
constexpr float kMinusInfinity = -__builtin_inff();

// Softmax state of one query: the largest score, the sum of exponentials relative to it, and the
// values so weighted.
template <int kMaxDim>
struct SoftmaxState {
  float largest;
  float sum;
  alignas(64) float o[kMaxDim];
};

template <int kMaxDim>
JANUS_INLINE void Clear(int64_t dim, SoftmaxState<kMaxDim>& state) {
  state.largest = kMinusInfinity;
  state.sum = 0.0f;
  for (int64_t d = 0; d < dim; d += kLanes) Store(state.o + d, Zero());
}

template <int kMaxDim>
JANUS_INLINE void CopyState(const SoftmaxState<kMaxDim>& from, int64_t dim,
                            SoftmaxState<kMaxDim>& to) {
  to.largest = from.largest;
  to.sum = from.sum;
  for (int64_t d = 0; d < dim; d += kLanes) Store(to.o + d, Load(from.o + d));
}

// o[q] += sum over keys begin..end-1 of the block of p[q][key] * value, key by key. values[i] is
// where those of positions 16i..16i+15 of the block begin, `row_elements` from one to the next.
template <DType kType, int kQueries, int kVectors>
JANUS_INLINE void ValueTile(const char* const* values, int begin, int end, int64_t row_elements,
                            int64_t d, const float* const* p, float* const* o) {
  V16 acc[kQueries][kVectors];
  JANUS_UNROLL for (int i = 0; i < kQueries; ++i) {
    JANUS_UNROLL for (int v = 0; v < kVectors; ++v) acc[i][v] = Load(o[i] + d + v * kLanes);
  }
  for (int key = begin; key < end; ++key) {
    const char* row =
        values[key / kPageTokens] + (key % kPageTokens * row_elements + d) * Bytes(kType);
    V16 value[kVectors];
    JANUS_UNROLL for (int v = 0; v < kVectors; ++v) {
      value[v] = LoadAs<kType>(row + v * kLanes * Bytes(kType));
    }
    JANUS_UNROLL for (int i = 0; i < kQueries; ++i) {
      const V16 x = Set(p[i][key]);
      JANUS_UNROLL for (int v = 0; v < kVectors; ++v) acc[i][v] = Fma(x, value[v], acc[i][v]);
    }
  }
  JANUS_UNROLL for (int i = 0; i < kQueries; ++i) {
    JANUS_UNROLL for (int v = 0; v < kVectors; ++v) Store(o[i] + d + v * kLanes, acc[i][v]);
  }
}

// The last dimensions of a head, if its size is not a multiple of 16.
template <DType kType>
JANUS_INLINE void ValueTail(const char* const* values, int begin, int end, int64_t row_elements,
                            int64_t head_dim, int64_t d, int queries, const float* const* p,
                            float* const* o) {
  for (int i = 0; i < queries; ++i) {
    V16 acc = Load(o[i] + d);
    for (int key = begin; key < end; ++key) {
      const char* row =
          values[key / kPageTokens] + (key % kPageTokens * row_elements + d) * Bytes(kType);
      acc = Fma(Set(p[i][key]), LoadPartial<kType>(row, head_dim - d), acc);
    }
    Store(o[i] + d, acc);
  }
}

template <DType kType, int kQueries>
JANUS_INLINE void AddValues(const char* const* values, int begin, int end, int64_t row_elements,
                            int64_t head_dim, const float* const* p, float* const* o) {
  constexpr int kVectors = JANUS_WIDE ? 4 : (kQueries > 2 ? 1 : 2);
  int64_t d = 0;
  for (; d + kVectors * kLanes <= head_dim; d += kVectors * kLanes) {
    ValueTile<kType, kQueries, kVectors>(values, begin, end, row_elements, d, p, o);
  }
  for (; d + kLanes <= head_dim; d += kLanes) {
    ValueTile<kType, kQueries, 1>(values, begin, end, row_elements, d, p, o);
  }
  if (d < head_dim) ValueTail<kType>(values, begin, end, row_elements, head_dim, d, kQueries, p, o);
}

// The number that is subtracted from scores before they are exponentiated, by the largest so far.
// If all scores are -infinity it is finite, so that they weigh 0: subtracting -infinity would give
// NaN.
JANUS_INLINE float ShiftOf(float largest) {
  return largest == kMinusInfinity ? 0.0f : largest;
}

// Masks, exponentiates and sums the scores of one query's keys begin..end-1 of a block, in place,
// and scales what the state held to the new maximum.
JANUS_INLINE void UpdateState(float* scores, int begin, int end, int64_t head_dim,
                              float& state_largest, float& state_sum, float* o) {
  const uint64_t seen =
      (end == 64 ? ~uint64_t{0} : (uint64_t{1} << end) - 1) & ~((uint64_t{1} << begin) - 1);
  V16 s[kBlockPages];
  JANUS_UNROLL for (int p = 0; p < kBlockPages; ++p) {
    s[p] = Blend(static_cast<uint32_t>(seen >> (p * kLanes)) & 0xffffu, Set(kMinusInfinity),
                 Load(scores + p * kLanes));
  }
  const float block = MaxLanes(Max(Max(s[0], s[1]), Max(s[2], s[3])));
  const float largest = block > state_largest ? block : state_largest;
  JANUS_UNROLL for (int p = 0; p < kBlockPages; ++p) {
    s[p] = Exp(s[p] - Set(ShiftOf(largest)));
    Store(scores + p * kLanes, s[p]);
  }
  const float sum = AddLanes((s[0] + s[1]) + (s[2] + s[3]));
  if (largest != state_largest) {
    const V16 shrink = Exp(Set(state_largest) - Set(largest));
    for (int64_t d = 0; d < head_dim; d += kLanes) {
      Store(o + d, Load(o + d) * shrink);
    }
    alignas(64) float lane[kLanes];
    Store(lane, shrink);
    state_sum *= lane[0];
    state_largest = largest;
  }
  state_sum += sum;
}

// Adds the state of a later split to that of the earlier ones.
template <int kMaxDim>
JANUS_INLINE void MergeState(const SoftmaxState<kMaxDim>& later, int64_t dim,
                             SoftmaxState<kMaxDim>& all) {
  const float largest = later.largest > all.largest ? later.largest : all.largest;
  const V16 shrink_all = Exp(Set(all.largest) - Set(ShiftOf(largest)));
  const V16 shrink_later = Exp(Set(later.largest) - Set(ShiftOf(largest)));
  for (int64_t d = 0; d < dim; d += kLanes) {
    Store(all.o + d, Fma(Load(later.o + d), shrink_later, Load(all.o + d) * shrink_all));
  }
  alignas(64) float lane_all[kLanes];
  alignas(64) float lane_later[kLanes];
  Store(lane_all, shrink_all);
  Store(lane_later, shrink_later);
  all.sum = all.sum * lane_all[0] + later.sum * lane_later[0];
  all.largest = largest;
}

}  // namespace
}  // namespace janus::kernels::JANUS_ISA
