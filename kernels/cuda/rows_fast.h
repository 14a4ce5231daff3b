#pragma once

// Embedding, combine and the write of latent vectors at the rate of a copy, with the bits of their
// plain forms (rows.h): no sum has another order. row_vectors.h says how a row is dealt.

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
    const bool by_vectors = GoesByVectors(a.table, a.table_dtype, a.hidden, a.hidden) &&
                            GoesByVectors(a.y, DType::kFloat32, a.hidden, a.hidden);
    block.Phase([&](int thread) {
      const RowPart part = PartOfWarp(block.index(), thread, a.hidden, kPart);
      if (part.row >= a.rows) return;
      if (a.table_dtype == DType::kFloat32) {
        by_vectors ? Move<4, true>(part) : Move<4, false>(part);
      } else {
        by_vectors ? Move<2, true>(part) : Move<2, false>(part);
      }
    });
  }

 private:
  template <int kWords, bool kByVectors>
  JANUS_DEVICE void Move(const RowPart& part) const {
    const int64_t token = a.tokens[part.row];
    const bool is_known = token >= 0 && token < a.vocab;
    const auto* const from =
        static_cast<const unsigned char*>(a.table) + (is_known ? token : 0) * a.hidden * kWords;
    Words<kWords> words[kTurns];
    JANUS_UNROLL
    for (int i = 0; i < kTurns; ++i) {
      words[i] = LoadFourWords<kWords, kByVectors>(from, part.first + i * kWarpFours,
                                                   is_known ? a.hidden : 0);
    }
    JANUS_UNROLL
    for (int i = 0; i < kTurns; ++i) {
      Four four = FourOf(words[i], a.table_dtype);
      if (!is_known) four = {{NAN, NAN, NAN, NAN}};
      StoreFour<kByVectors>(a.y + part.row * a.hidden, DType::kFloat32, part.first + i * kWarpFours,
                            a.hidden, four);
    }
  }
};
inline Plan PlanFastEmbed(const EmbedArgs& a) {
  const Plan plain = PlanEmbed(a);
  return PlanRowParts(a.rows, a.hidden, FastEmbedKernel::kPart, plain.bytes, plain.flops);
}

// A lane loads up to eight slots of a row at once, and what is added to them.
struct FastCombineKernel {
  static constexpr int kThreads = kRowThreads;
  static constexpr int kTurns = 2;
  static constexpr int kPart = kTurns * kWarpFours;
  static constexpr int kSlotsAtOnce = 8;
  CombineSlotsArgs a;

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const bool by_vectors = GoesByVectors(a.residual, DType::kFloat32, a.hidden, a.hidden) &&
                            GoesByVectors(a.y, DType::kFloat32, a.hidden, a.hidden) &&
                            GoesByVectors(a.local, DType::kFloat32, a.hidden, a.hidden);
    block.Phase([&](int thread) {
      const RowPart part = PartOfWarp(block.index(), thread, a.hidden, kPart);
      if (part.row >= a.rows) return;
      if (!by_vectors || !SlotsAreAligned(part.row)) {
        CombineOneByOne(part);
      } else if (a.dtype == DType::kFloat32) {
        Combine<4, kSlotsAtOnce / 2>(part);
      } else {
        Combine<2, kSlotsAtOnce>(part);
      }
    });
  }

 private:
  JANUS_DEVICE bool SlotsAreAligned(int64_t row) const {
    uintptr_t addresses = 0;
    for (int j = 0; j < a.top_k; ++j) {
      addresses |= reinterpret_cast<uintptr_t>(a.contributions[row * a.top_k + j]);
    }
    return addresses % static_cast<uintptr_t>(kFour * SizeOf(a.dtype)) == 0;
  }
  JANUS_DEVICE void CombineOneByOne(const RowPart& part) const {
    for (int i = 0; i < kTurns; ++i) {
      const int64_t first = part.first + i * kWarpFours;
      for (int64_t h = first; h < first + kFour && h < a.hidden; ++h) {
        a.y[part.row * a.hidden + h] = CombinedSlots(a, part.row, h);
      }
    }
  }
  template <int kWords, int kAtOnce>
  JANUS_DEVICE void Combine(const RowPart& part) const {
    constexpr DType kType = kWords == 4 ? DType::kFloat32 : DType::kBFloat16;
    const int64_t row = part.row * a.hidden;
    const void* const* const slots = a.contributions + part.row * a.top_k;
    // Without `local` this is a valid pointer, from which nothing is read.
    const float* const local_row = (a.local != nullptr ? a.local : a.residual) + row;
    Words<4> residual[kTurns];
    Words<4> local[kTurns];
    JANUS_UNROLL
    for (int i = 0; i < kTurns; ++i) {
      const int64_t h = part.first + i * kWarpFours;
      residual[i] = LoadFourWords<4, true>(a.residual + row, h, a.hidden);
      local[i] = LoadFourWords<4, true>(local_row, h, a.local != nullptr ? a.hidden : 0);
    }
    Four sums[kTurns] = {};
    JANUS_KEEP_LOOP
    for (int first = 0; first < a.top_k; first += kAtOnce) {
      // All pointers, then all that they point to.
      const void* slot[kAtOnce];
      JANUS_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        slot[j] = first + j < a.top_k ? slots[first + j] : a.residual;
      }
      Words<kWords> words[kAtOnce][kTurns];
      JANUS_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        JANUS_UNROLL
        for (int i = 0; i < kTurns; ++i) {
          words[j][i] = LoadFourWords<kWords, true>(slot[j], part.first + i * kWarpFours,
                                                    first + j < a.top_k ? a.hidden : 0);
        }
      }
      JANUS_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        if (first + j >= a.top_k) continue;
        JANUS_UNROLL
        for (int i = 0; i < kTurns; ++i) {
          const Four more = FourOf(words[j][i], kType);
          // The first slot is not added to 0: -0 stays.
          sums[i] = first + j == 0 ? more : Sum(sums[i], more);
        }
      }
    }
    JANUS_UNROLL
    for (int i = 0; i < kTurns; ++i) {
      const Four more = FourOf(local[i], DType::kFloat32);
      if (a.local != nullptr) sums[i] = a.top_k == 0 ? more : Sum(sums[i], more);
      StoreFour<true>(a.y + row, DType::kFloat32, part.first + i * kWarpFours, a.hidden,
                      Sum(FourOf(residual[i], DType::kFloat32), sums[i]));
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

// Of caches in fp32 and bfloat16.
struct LatentWriteKernel {
  static constexpr int kThreads = kRowThreads;
  static constexpr int kTurns = 2;
  static constexpr int kPart = kTurns * kWarpFours;
  LatentWriteArgs a;

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const LatentCache& cache = a.cache;
    const int64_t width = int64_t{cache.rank} + cache.rope;
    const bool by_vectors = GoesByVectors(a.entries, DType::kFloat32, width, a.entry_stride) &&
                            GoesByVectors(cache.pages, cache.dtype, width, 0) &&
                            cache.page_stride_bytes % 16 == 0;
    block.Phase([&](int thread) {
      const RowPart part = PartOfWarp(block.index(), thread, width, kPart);
      if (part.row >= a.num_rows) return;
      by_vectors ? Move<true>(part, width) : Move<false>(part, width);
    });
  }

 private:
  template <bool kByVectors>
  JANUS_DEVICE void Move(const RowPart& part, int64_t width) const {
    const LatentCache& cache = a.cache;
    const int64_t page_bytes = cache.page_stride_bytes != 0
                                   ? cache.page_stride_bytes
                                   : LatentPageBytes(cache.dtype, cache.rank, cache.rope);
    const float* const entry =
        a.entries + part.row * (a.entry_stride != 0 ? a.entry_stride : width);
    Words<4> words[kTurns];
    JANUS_UNROLL
    for (int i = 0; i < kTurns; ++i) {
      words[i] = LoadFourWords<4, kByVectors>(entry, part.first + i * kWarpFours, width);
    }
    const KvRow row = a.rows[part.row];
    auto* const to = static_cast<unsigned char*>(cache.pages) +
                     row.block_table[row.position / kPageTokens] * page_bytes +
                     row.position % kPageTokens * width * SizeOf(cache.dtype);
    JANUS_UNROLL
    for (int i = 0; i < kTurns; ++i) {
      StoreFour<kByVectors>(to, cache.dtype, part.first + i * kWarpFours, width,
                            FourOf(words[i], DType::kFloat32));
    }
  }
};
inline Plan PlanLatentWrite(const LatentWriteArgs& a) {
  const int64_t width = int64_t{a.cache.rank} + a.cache.rope;
  return PlanRowParts(a.num_rows, width, LatentWriteKernel::kPart,
                      a.num_rows * (width * (4 + SizeOf(a.cache.dtype)) + kWhereToWriteBytes), 0);
}

}  // namespace janus::kernels::cuda
