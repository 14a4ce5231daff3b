#pragma once

// What fast kernels over rows share. A warp has a part of a row. A lane has four neighbours, then
// the four that lie 128 elements on, and so on. So loads and stores of a warp are whole cache lines
// in every number format (16 bytes a lane in fp32, 8 in 16 bits, 4 in fp8). If four elements do not
// lie at a multiple of their size, or a row is not a multiple of four, the kernel's other body
// moves elements one by one, to the same places and with the same bits. A kernel checks this once
// for all that a lane moves, so that nothing is waited for between its loads.

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
// How often this thread moved words together, to and from memory.
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
  Count(host_vectors);
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
  Count(host_vectors);
#endif
}

// Four elements of a row as they lie there, from `first` on, a multiple of 4: a word for each in
// Float32, half a word in 16 bits, a byte in fp8. Zeros in place of those from `count` on. With
// kByVectors the row begins at a multiple of their size, and `count` is a multiple of 4.
template <int kWords, bool kByVectors>
JANUS_DEVICE inline Words<kWords> LoadFourWords(const void* row, int64_t first, int64_t count) {
  const auto* const from = static_cast<const unsigned char*>(row) + first * kWords;
  Words<kWords> words = {};
  if constexpr (kByVectors) {
    if (first < count) words = LoadWords<kWords>(from);
    return words;
  }
  constexpr int kToWord = kFour / kWords;  // elements
  JANUS_UNROLL
  for (int i = 0; i < kFour; ++i) {
    if (first + i >= count) continue;
    uint32_t element = 0;
    if constexpr (kWords == 4) {
      element = reinterpret_cast<const uint32_t*>(from)[i];
    } else if constexpr (kWords == 2) {
      element = reinterpret_cast<const uint16_t*>(from)[i];
    } else {
      element = from[i];
    }
    words.of[i / kToWord] |= element << (8 * kWords * (i % kToWord));
  }
  return words;
}

// Stores those below `count`.
template <bool kByVectors, int kWords>
JANUS_DEVICE inline void StoreFourWords(void* row, int64_t first, int64_t count,
                                        const Words<kWords>& words) {
  auto* const to = static_cast<unsigned char*>(row) + first * kWords;
  if constexpr (kByVectors) {
    if (first < count) StoreWords(to, words);
    return;
  }
  constexpr int kToWord = kFour / kWords;
  JANUS_UNROLL
  for (int i = 0; i < kFour; ++i) {
    if (first + i >= count) continue;
    const uint32_t element = words.of[i / kToWord] >> (8 * kWords * (i % kToWord));
    if constexpr (kWords == 4) {
      reinterpret_cast<uint32_t*>(to)[i] = element;
    } else if constexpr (kWords == 2) {
      reinterpret_cast<uint16_t*>(to)[i] = static_cast<uint16_t>(element);
    } else {
      to[i] = static_cast<uint8_t>(element);
    }
  }
}

struct Four {
  float of[kFour];
};

// FromFloat16 without its loop: the bits moved, times 2^112.
JANUS_DEVICE inline float FloatOfHalf(uint32_t bits) {
  const uint32_t magnitude = (bits & 0x7FFFu) << 13;
  const uint32_t sign = (bits & 0x8000u) << 16;
  const auto finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  return std::bit_cast<float>(sign | (magnitude < 0x0F800000u ? finite : magnitude | 0x7F800000u));
}

// Words of Float32 are four, those of the formats of 16 bits two.
template <int kWords>
JANUS_DEVICE inline Four FourOf(const Words<kWords>& words, DType type) {
  Four four;
  JANUS_UNROLL
  for (int i = 0; i < kFour; ++i) {
    if constexpr (kWords == 4) {
      four.of[i] = std::bit_cast<float>(words.of[i]);
    } else {
      const uint32_t bits = words.of[i / 2] >> (16 * (i % 2)) & 0xFFFFu;
      four.of[i] = type == DType::kFloat16 ? FloatOfHalf(bits) : std::bit_cast<float>(bits << 16);
    }
  }
  return four;
}

// Whether rows of `width` elements, so many from row to row, can go by vectors.
JANUS_DEVICE inline bool GoesByVectors(const void* rows, DType type, int64_t width,
                                       int64_t stride) {
  return width % kFour == 0 && stride % kFour == 0 &&
         IsAligned(rows, kFour * static_cast<int>(SizeOf(type)));
}

// As StoreFourWords, rounded to Float32 or BFloat16.
template <bool kByVectors>
JANUS_DEVICE inline void StoreFour(void* row, DType type, int64_t first, int64_t count,
                                   const Four& four) {
  if (type == DType::kFloat32) {
    Words<4> words;
    JANUS_UNROLL
    for (int i = 0; i < kFour; ++i) words.of[i] = std::bit_cast<uint32_t>(four.of[i]);
    StoreFourWords<kByVectors>(row, first, count, words);
    return;
  }
  Words<2> words;
  JANUS_UNROLL
  for (int i = 0; i < 2; ++i) {
    words.of[i] = ToBFloat16(four.of[2 * i]) | uint32_t{ToBFloat16(four.of[2 * i + 1])} << 16;
  }
  StoreFourWords<kByVectors>(row, first, count, words);
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
