#pragma once

// What fast kernels over rows do alike. A warp has a part of a row; a lane has four neighbours,
// then the four that lie 128 elements on, and so on: loads and stores of a warp are whole lines of
// the cache in every number format (16 bytes a lane in fp32, 8 in 16 bits, 4 in fp8). Four that do
// not lie at a multiple of their size, or of which the row has fewer, are moved one by one, to the
// same places: where a row lies shows in no bit.

#include <bit>
#include <cstdint>

#include "kernels/cuda/element.h"
#include "kernels/cuda/plan.h"

#ifndef __CUDACC__
#include <cstring>

#include "common/check.h"
#endif

namespace janus::kernels::cuda {

inline constexpr int kFour = 4;
inline constexpr int kWarpFours = kFour * kLanes;  // elements of a warp's one load
inline constexpr int kRowThreads = 128;
inline constexpr int kRowWarps = kRowThreads / kLanes;

template <int kWords>
struct Words {
  uint32_t of[kWords];
};

#ifndef __CUDACC__
// How often words were moved together, to and from memory. Of this thread.
inline thread_local int64_t host_vectors = 0;
#endif

JANUS_DEVICE inline bool IsAligned(const void* address, int bytes) {
  return reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(bytes) == 0;
}

// From an address that is a multiple of their size.
template <int kWords>
JANUS_DEVICE inline Words<kWords> LoadWords(const void* from) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
#ifdef __CUDACC__
  if constexpr (kWords == 4) {
    const uint4 v = *static_cast<const uint4*>(from);
    return {{v.x, v.y, v.z, v.w}};
  } else if constexpr (kWords == 2) {
    const uint2 v = *static_cast<const uint2*>(from);
    return {{v.x, v.y}};
  } else {
    return {{*static_cast<const uint32_t*>(from)}};
  }
#else
  JANUS_CHECK(IsAligned(from, 4 * kWords), kWords);
  Words<kWords> words;
  std::memcpy(&words, from, sizeof words);
  ++host_vectors;
  return words;
#endif
}

template <int kWords>
JANUS_DEVICE inline void StoreWords(void* to, const Words<kWords>& words) {
#ifdef __CUDACC__
  if constexpr (kWords == 4) {
    *static_cast<uint4*>(to) = {words.of[0], words.of[1], words.of[2], words.of[3]};
  } else if constexpr (kWords == 2) {
    *static_cast<uint2*>(to) = {words.of[0], words.of[1]};
  } else {
    *static_cast<uint32_t*>(to) = words.of[0];
  }
#else
  JANUS_CHECK(IsAligned(to, 4 * kWords), kWords);
  std::memcpy(to, &words, sizeof words);
  ++host_vectors;
#endif
}

struct Four {
  float of[kFour];
};

// Words of Float32 are four, those of the formats of 16 bits two.
template <int kWords>
JANUS_DEVICE inline Four FourOf(const Words<kWords>& words, DType type) {
  Four four;
  JANUS_UNROLL
  for (int i = 0; i < kFour; ++i) {
    if constexpr (kWords == 4) {
      four.of[i] = std::bit_cast<float>(words.of[i]);
    } else {
      const auto bits = static_cast<uint16_t>(words.of[i / 2] >> (16 * (i % 2)));
      four.of[i] = type == DType::kFloat16 ? FromFloat16(bits) : FromBFloat16(bits);
    }
  }
  return four;
}

JANUS_DEVICE inline int BytesOfFour(DType type) {
  return kFour * static_cast<int>(SizeOf(type));
}

// Elements first to first+3 of a row; 0 in place of those from `count` on. `first` is a multiple of
// 4, and `is_aligned` says that the row begins at a multiple of BytesOfFour.
JANUS_DEVICE inline Four LoadFour(const void* row, DType type, int64_t first, int64_t count,
                                  bool is_aligned) {
  if (is_aligned && first + kFour <= count) {
    const void* const from = static_cast<const unsigned char*>(row) + first * SizeOf(type);
    return type == DType::kFloat32 ? FourOf(LoadWords<4>(from), type)
                                   : FourOf(LoadWords<2>(from), type);
  }
  Four four;
  JANUS_UNROLL
  for (int i = 0; i < kFour; ++i) four.of[i] = first + i < count ? Load(row, type, first + i) : 0;
  return four;
}

// Stores those that lie below `count`, rounded to Float32 or BFloat16.
JANUS_DEVICE inline void StoreFour(void* row, DType type, int64_t first, int64_t count,
                                   bool is_aligned, const Four& four) {
  if (is_aligned && first + kFour <= count) {
    void* const to = static_cast<unsigned char*>(row) + first * SizeOf(type);
    if (type == DType::kFloat32) {
      Words<4> words;
      JANUS_UNROLL
      for (int i = 0; i < kFour; ++i) words.of[i] = std::bit_cast<uint32_t>(four.of[i]);
      StoreWords(to, words);
      return;
    }
    Words<2> words;
    JANUS_UNROLL
    for (int i = 0; i < 2; ++i) {
      words.of[i] = ToBFloat16(four.of[2 * i]) | uint32_t{ToBFloat16(four.of[2 * i + 1])} << 16;
    }
    StoreWords(to, words);
    return;
  }
  JANUS_UNROLL
  for (int i = 0; i < kFour; ++i) {
    if (first + i < count) Store(row, type, first + i, four.of[i]);
  }
}

// The part of a row that a warp has: parts of one row are neighbours.
struct RowPart {
  int64_t row;    // beyond the last for warps that have none
  int64_t first;  // of this lane
};
// In 32 bits, which PlanRowParts makes sure of: dividing 64 is a function that spills.
JANUS_DEVICE inline RowPart PartOfWarp(int64_t block, int thread, int64_t width, int part_width) {
  const auto parts = static_cast<uint32_t>((width + part_width - 1) / part_width);
  const auto warp =
      static_cast<uint32_t>(block) * kRowWarps + static_cast<uint32_t>(thread / kLanes);
  return {warp / parts, static_cast<int64_t>(warp % parts) * part_width + thread % kLanes * kFour};
}
constexpr Plan PlanRowParts(int64_t rows, int64_t width, int part_width, int64_t bytes,
                            int64_t flops) {
  const int64_t parts = rows * CeilDiv(width, part_width);
  // More warps than 32 bits count are more than a launch takes.
  const int64_t blocks = parts > kMaxBlocks ? parts : CeilDiv(parts, kRowWarps);
  return {blocks, kRowThreads, 0, bytes, flops};
}

}  // namespace janus::kernels::cuda
