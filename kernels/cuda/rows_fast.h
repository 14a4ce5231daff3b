#pragma once

// Embedding and combine at the rate of a copy, with the bits of their plain forms (rows.h): no sum
// has another order. row_vectors.h says how a row is dealt.

#include <cmath>

#include "kernels/cuda/row_vectors.h"
#include "kernels/cuda/rows.h"

namespace janus::kernels::cuda {

struct FastEmbedKernel {
  static constexpr int kThreads = kRowThreads;
  static constexpr int kTurns = 4;  // of a lane: its loads are under way together
  static constexpr int kPart = kTurns * kWarpFours;
  EmbedArgs a;

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    block.Phase([&](int thread) {
      const RowPart part = PartOfWarp(block.index(), thread, a.hidden, kPart);
      if (part.row >= a.rows) return;
      if (a.table_dtype == DType::kFloat32) {
        Move<4>(part);
      } else {
        Move<2>(part);
      }
    });
  }

 private:
  template <int kWords>
  JANUS_DEVICE void Move(const RowPart& part) const {
    const int64_t token = a.tokens[part.row];
    const bool is_known = token >= 0 && token < a.vocab;
    const auto* const from = static_cast<const unsigned char*>(a.table) +
                             (is_known ? token : 0) * a.hidden * SizeOf(a.table_dtype);
    float* const y = a.y + part.row * a.hidden;
    const bool from_is_aligned = IsAligned(from, 4 * kWords);
    const bool y_is_aligned = IsAligned(y, 16);
    Words<kWords> words[kTurns];
    JANUS_UNROLL
    for (int i = 0; i < kTurns; ++i) {
      const int64_t h = part.first + i * kWarpFours;
      words[i] = LoadFourWords<kWords>(from, h, is_known ? a.hidden : 0, from_is_aligned);
    }
    JANUS_UNROLL
    for (int i = 0; i < kTurns; ++i) {
      Four four = FourOf(words[i], a.table_dtype);
      if (!is_known) four = {{NAN, NAN, NAN, NAN}};
      StoreFour(y, DType::kFloat32, part.first + i * kWarpFours, a.hidden, y_is_aligned, four);
    }
  }
};
inline Plan PlanFastEmbed(const EmbedArgs& a) {
  const Plan plain = PlanEmbed(a);
  return PlanRowParts(a.rows, a.hidden, FastEmbedKernel::kPart, plain.bytes, plain.flops);
}

// A lane has up to eight slots of a row under way at once, and what is added to them.
struct FastCombineKernel {
  static constexpr int kThreads = kRowThreads;
  static constexpr int kTurns = 2;
  static constexpr int kPart = kTurns * kWarpFours;
  static constexpr int kSlotsAtOnce = 8;
  CombineSlotsArgs a;

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    block.Phase([&](int thread) {
      const RowPart part = PartOfWarp(block.index(), thread, a.hidden, kPart);
      if (part.row >= a.rows) return;
      if (a.dtype == DType::kFloat32) {
        Combine<4, kSlotsAtOnce / 2>(part);
      } else {
        Combine<2, kSlotsAtOnce>(part);
      }
    });
  }

 private:
  template <int kWords, int kAtOnce>
  JANUS_DEVICE void Combine(const RowPart& part) const {
    const int64_t row = part.row * a.hidden;
    const void* const* const slots = a.contributions + part.row * a.top_k;
    const float* const local = a.local != nullptr ? a.local + row : nullptr;
    bool is_aligned =
        IsAligned(a.residual + row, 16) && IsAligned(a.y + row, 16) && IsAligned(local, 16);
    for (int j = 0; j < a.top_k; ++j) is_aligned = is_aligned && IsAligned(slots[j], 4 * kWords);
    bool is_whole[kTurns];
    Words<4> residual[kTurns] = {};
    Words<4> beside[kTurns] = {};
    JANUS_UNROLL
    for (int i = 0; i < kTurns; ++i) {
      const int64_t h = part.first + i * kWarpFours;
      is_whole[i] = is_aligned && h + kFour <= a.hidden;
      if (!is_whole[i]) continue;
      residual[i] = LoadWords<4>(a.residual + row + h);
      if (local != nullptr) beside[i] = LoadWords<4>(local + h);
    }
    Four sums[kTurns] = {};
    JANUS_KEEP_LOOP
    for (int first = 0; first < a.top_k; first += kAtOnce) {
      // All pointers, then all that they point to.
      const unsigned char* slot[kAtOnce];
      JANUS_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        const bool is_there = first + j < a.top_k;
        slot[j] = is_there ? static_cast<const unsigned char*>(slots[first + j]) : nullptr;
      }
      Words<kWords> words[kAtOnce][kTurns] = {};
      JANUS_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        JANUS_UNROLL
        for (int i = 0; i < kTurns; ++i) {
          const int64_t h = part.first + i * kWarpFours;
          if (first + j < a.top_k && is_whole[i]) {
            words[j][i] = LoadWords<kWords>(slot[j] + h * kWords);
          }
        }
      }
      JANUS_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        if (first + j >= a.top_k) continue;
        JANUS_UNROLL
        for (int i = 0; i < kTurns; ++i) {
          const Four more = FourOf(words[j][i], DType::kBFloat16);
          // The first slot is not added to 0: -0 stays.
          sums[i] = first + j == 0 ? more : Sum(sums[i], more);
        }
      }
    }
    JANUS_UNROLL
    for (int i = 0; i < kTurns; ++i) {
      const int64_t h = part.first + i * kWarpFours;
      if (is_whole[i]) {
        const Four more = FourOf(beside[i], DType::kFloat32);
        if (local != nullptr) sums[i] = a.top_k == 0 ? more : Sum(sums[i], more);
        StoreFour(a.y + row, DType::kFloat32, h, a.hidden, true,
                  Sum(FourOf(residual[i], DType::kFloat32), sums[i]));
        continue;
      }
      JANUS_KEEP_LOOP
      for (int64_t j = h; j < h + kFour && j < a.hidden; ++j)
        a.y[row + j] = CombinedSlots(a, part.row, j);
    }
  }
  JANUS_DEVICE static Four Sum(const Four& a, const Four& b) {
    Four sum;
    JANUS_UNROLL
    for (int i = 0; i < kFour; ++i) sum.of[i] = a.of[i] + b.of[i];
    return sum;
  }
};
inline Plan PlanFastCombine(const CombineSlotsArgs& a) {
  const Plan plain = PlanCombineSlots(a);
  return PlanRowParts(a.rows, a.hidden, FastCombineKernel::kPart, plain.bytes, plain.flops);
}

}  // namespace janus::kernels::cuda
