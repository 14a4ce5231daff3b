#pragma once

// The sum rule FixedPoint: terms into integers and their sums, and sums into rows. A lane has four
// neighbours of a row, and adds them over the row's terms or parts. Integers have no rounding, so
// the bits are the reference's whatever the order. Specification: ../reference/exact_sums.cc

#include "common/fixed_point.h"
#include "kernels/cuda/row_vectors.h"
#include "kernels/kernels.h"

namespace janus::kernels::cuda {

struct FourFixed {
  int32_t of[kFour];
};

// Whether rows of sums can go by words: four elements of 24 bits are three.
JANUS_DEVICE inline bool SumsGoByVectors(const void* sums, int bits, int64_t hidden) {
  return hidden % kFour == 0 && IsAligned(sums, bits == 24 ? 4 : 16);
}

// Elements from `first` on, a multiple of 4; zeros from `count` on.
template <bool kByVectors>
JANUS_DEVICE inline FourFixed LoadFourFixed(const void* row, int bits, int64_t first,
                                            int64_t count) {
  FourFixed four = {};
  const auto* const from = static_cast<const unsigned char*>(row);
  if (bits == 32) {
    const Words<4> words = LoadFourWords<4, kByVectors>(from, first, count);
    JANUS_UNROLL
    for (int i = 0; i < kFour; ++i) four.of[i] = static_cast<int32_t>(words.of[i]);
    return four;
  }
  if constexpr (kByVectors) {
    if (first >= count) return four;
    uint32_t words[3];
    JANUS_UNROLL
    for (int i = 0; i < 3; ++i) words[i] = LoadWords<1>(from + 3 * first + 4 * i).of[0];
    // Each in the upper bytes of a word, then down with its sign.
    four.of[0] = static_cast<int32_t>(words[0] << 8) >> 8;
    four.of[1] = static_cast<int32_t>((words[0] >> 24 | words[1] << 8) << 8) >> 8;
    four.of[2] = static_cast<int32_t>((words[1] >> 16 | words[2] << 16) << 8) >> 8;
    four.of[3] = static_cast<int32_t>(words[2]) >> 8;
  } else {
    JANUS_UNROLL
    for (int i = 0; i < kFour; ++i) {
      if (first + i < count) four.of[i] = LoadFixed(from + 3 * (first + i), 24);
    }
  }
  return four;
}

// Stores those below `count`.
template <bool kByVectors>
JANUS_DEVICE inline void StoreFourFixed(void* row, int bits, int64_t first, int64_t count,
                                        const FourFixed& four) {
  auto* const to = static_cast<unsigned char*>(row);
  uint32_t of[kFour];
  JANUS_UNROLL
  for (int i = 0; i < kFour; ++i) of[i] = static_cast<uint32_t>(four.of[i]);
  if (bits == 32) {
    StoreFourWords<kByVectors>(to, first, count, Words<4>{{of[0], of[1], of[2], of[3]}});
    return;
  }
  if constexpr (kByVectors) {
    if (first >= count) return;
    constexpr uint32_t kLow = 0xFFFFFFu;
    StoreWords(to + 3 * first, Words<1>{{(of[0] & kLow) | of[1] << 24}});
    StoreWords(to + 3 * first + 4, Words<1>{{(of[1] & kLow) >> 8 | of[2] << 16}});
    StoreWords(to + 3 * first + 8, Words<1>{{(of[2] & kLow) >> 16 | of[3] << 8}});
  } else {
    JANUS_UNROLL
    for (int i = 0; i < kFour; ++i) {
      if (first + i < count) StoreFixed(to + 3 * (first + i), four.of[i], 24);
    }
  }
}

struct AddTermsKernel {
  static constexpr int kThreads = kRowThreads;
  static constexpr int kTurns = 2;
  static constexpr int kPart = kTurns * kWarpFours;
  static constexpr int kBlocksAtOnce = 8;  // else registers are held to what spills
  AddTermsArgs a;

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const bool by_vectors = GoesByVectors(a.terms, DType::kFloat32, a.hidden, a.hidden) &&
                            SumsGoByVectors(a.sums, a.bits, a.hidden);
    block.Phase([&](int thread) {
      const RowPart part = PartOfWarp(block.index(), thread, a.hidden, kPart);
      if (part.row >= a.rows) return;
      const uint32_t clamped = by_vectors ? Add<true>(part) : Add<false>(part);
      if (clamped > 0 && a.clamped != nullptr) block.Add(*a.clamped, clamped);
    });
  }

 private:
  // Returns how many elements were clamped.
  template <bool kByVectors>
  JANUS_DEVICE uint32_t Add(const RowPart& part) const {
    const float per_unit = PowerOfTwo(-a.exponent);
    const int32_t first = part.row == 0 ? 0 : a.ends[part.row - 1];
    const int32_t end = a.ends[part.row];
    FourFixed sums[kTurns] = {};
    uint32_t count = 0;
    JANUS_KEEP_LOOP
    for (int32_t term = first; term < end; ++term) {
      JANUS_UNROLL
      for (int i = 0; i < kTurns; ++i) {
        const int64_t h = part.first + i * kWarpFours;
        const Words<4> words =
            LoadFourWords<4, kByVectors>(a.terms + int64_t{term} * a.hidden, h, a.hidden);
        const Four values = FourOf(words, DType::kFloat32);
        JANUS_UNROLL
        for (int j = 0; j < kFour; ++j) {
          bool clamped = false;
          const int32_t more = ToFixed(values.of[j], per_unit, a.limit, a.bits, clamped);
          sums[i].of[j] = AddFixed(sums[i].of[j], more, a.bits);
          count += clamped ? 1 : 0;
        }
      }
    }
    auto* const row = static_cast<unsigned char*>(a.sums) + part.row * a.hidden * (a.bits / 8);
    JANUS_UNROLL
    for (int i = 0; i < kTurns; ++i) {
      StoreFourFixed<kByVectors>(row, a.bits, part.first + i * kWarpFours, a.hidden, sums[i]);
    }
    return count;
  }
};
// The number of terms is on the device: at most kMostTerms of a sum, at least one, which counts.
inline Plan PlanAddTerms(const AddTermsArgs& a) {
  const int64_t count = a.rows * a.hidden;
  return PlanRowParts(a.rows, a.hidden, AddTermsKernel::kPart,
                      count * (4 + a.bits / 8) + a.rows * 4, count);
}

struct CombineSumsKernel {
  static constexpr int kThreads = kRowThreads;
  static constexpr int kTurns = 2;
  static constexpr int kPart = kTurns * kWarpFours;
  CombineSumsArgs a;

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const bool by_vectors = GoesByVectors(a.residual, DType::kFloat32, a.hidden, a.hidden) &&
                            GoesByVectors(a.y, DType::kFloat32, a.hidden, a.hidden) &&
                            GoesByVectors(a.local, DType::kFloat32, a.hidden, a.hidden);
    block.Phase([&](int thread) {
      const RowPart part = PartOfWarp(block.index(), thread, a.hidden, kPart);
      if (part.row >= a.rows) return;
      by_vectors&& PartsAreAligned(part.row) ? Combine<true>(part) : Combine<false>(part);
    });
  }

 private:
  JANUS_DEVICE bool PartsAreAligned(int64_t row) const {
    uintptr_t addresses = 0;
    for (int j = 0; j < a.top_k; ++j) {
      addresses |= reinterpret_cast<uintptr_t>(a.sums[row * a.top_k + j]);
    }
    return addresses % (a.bits == 24 ? 4 : 16) == 0;
  }

  template <bool kByVectors>
  JANUS_DEVICE void Combine(const RowPart& part) const {
    const int64_t row = part.row * a.hidden;
    // Without `local` this is a valid pointer, from which nothing is read.
    const float* const local_row = (a.local != nullptr ? a.local : a.residual) + row;
    Words<4> residual[kTurns];
    Words<4> local[kTurns];
    JANUS_UNROLL
    for (int i = 0; i < kTurns; ++i) {
      const int64_t h = part.first + i * kWarpFours;
      residual[i] = LoadFourWords<4, kByVectors>(a.residual + row, h, a.hidden);
      local[i] = LoadFourWords<4, kByVectors>(local_row, h, a.local != nullptr ? a.hidden : 0);
    }
    FourFixed sums[kTurns] = {};
    JANUS_KEEP_LOOP
    for (int j = 0; j < a.top_k; ++j) {
      const void* const from = a.sums[part.row * a.top_k + j];
      if (from == nullptr) continue;
      JANUS_UNROLL
      for (int i = 0; i < kTurns; ++i) {
        const FourFixed more =
            LoadFourFixed<kByVectors>(from, a.bits, part.first + i * kWarpFours, a.hidden);
        JANUS_UNROLL
        for (int e = 0; e < kFour; ++e) {
          sums[i].of[e] = AddFixed(sums[i].of[e], more.of[e], a.bits);
        }
      }
    }
    const float unit = PowerOfTwo(a.exponent);
    JANUS_UNROLL
    for (int i = 0; i < kTurns; ++i) {
      const Four before = FourOf(residual[i], DType::kFloat32);
      const Four beside = FourOf(local[i], DType::kFloat32);
      Four y;
      JANUS_UNROLL
      for (int e = 0; e < kFour; ++e) {
        const float value = FromFixed(sums[i].of[e], unit, a.bits);
        y.of[e] = before.of[e] + (a.local != nullptr ? value + beside.of[e] : value);
      }
      StoreFour<kByVectors>(a.y + row, DType::kFloat32, part.first + i * kWarpFours, a.hidden, y);
    }
  }
};
// As if a row came in one part.
inline Plan PlanCombineSums(const CombineSumsArgs& a) {
  const int64_t count = a.rows * a.hidden;
  const int64_t local = a.local != nullptr ? 1 : 0;
  return PlanRowParts(a.rows, a.hidden, CombineSumsKernel::kPart,
                      count * (8 + 4 * local + a.bits / 8) + a.rows * a.top_k * 8,
                      count * (2 + local));
}

}  // namespace janus::kernels::cuda
