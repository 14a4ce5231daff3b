#pragma once

// Rows to fp8 with a scale for each block of 128 elements, and back, at the rate of a copy. A block
// is what a warp loads at once, four elements a lane, so its largest element is one reduction.
// Specification, bit for bit: ../reference/pack_fp8.cc

#include "kernels/cuda/row_vectors.h"
#include "kernels/cuda/warp.h"
#include "kernels/float8_pieces.h"
#include "kernels/kernels.h"

namespace janus::kernels::cuda {

static_assert(kWarpFours == kScaleBlock);

inline constexpr uint32_t kInfinity = 0x7F800000u;

// Two finite floats in fp8, the first in the lower byte.
JANUS_DEVICE inline uint32_t Float8PairOf(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return ToFloat8E4M3(low) | uint32_t{ToFloat8E4M3(high)} << 8;
#endif
}

// Four elements in fp8, the first in the lowest byte. What is not finite is NaN with its sign.
JANUS_DEVICE inline uint32_t PackFour(const Four& x, float factor) {
  float scaled[kFour];
  JANUS_UNROLL
  for (int i = 0; i < kFour; ++i)
    scaled[i] = MagnitudeOf(x.of[i]) < kInfinity ? x.of[i] * factor : 0;
  uint32_t word = Float8PairOf(scaled[0], scaled[1]) | Float8PairOf(scaled[2], scaled[3]) << 16;
  JANUS_UNROLL
  for (int i = 0; i < kFour; ++i) {
    if (MagnitudeOf(x.of[i]) >= kInfinity) {
      const uint32_t sign = std::bit_cast<uint32_t>(x.of[i]) >> 24 & 0x80u;
      word |= (sign | 0x7Fu) << (8 * i);
    }
  }
  return word;
}

// The value of a byte of fp8: its bits as a float's times 2^120, subnormals included.
JANUS_DEVICE inline float UnpackFloat8(uint32_t byte, float scale) {
  const uint32_t magnitude = byte & 0x7Fu;
  if (magnitude == 0x7Fu) return std::bit_cast<float>(0x7FC00000u);
  const float value = std::bit_cast<float>(magnitude << 20) * 0x1p120f;
  const uint32_t sign = (byte & 0x80u) << 24;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign) * scale;
}

struct PackRowsKernel {
  static constexpr int kThreads = kRowThreads;
  static constexpr int kTurns = 4;  // blocks of a warp, under way together
  static constexpr int kPart = kTurns * kWarpFours;
  PackFp8Args a;

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const bool by_vectors = GoesByVectors(a.x, a.x_dtype, a.hidden, a.x_stride) &&
                            GoesByVectors(a.packed, DType::kFloat8E4M3, a.hidden, a.packed_stride);
    if (a.x_dtype == DType::kFloat32) {
      by_vectors ? Run<4, true>(block) : Run<4, false>(block);
    } else {
      by_vectors ? Run<2, true>(block) : Run<2, false>(block);
    }
  }

 private:
  // The bits of the largest magnitude that is finite.
  JANUS_DEVICE static uint32_t LargestOf(const Four& x) {
    uint32_t most = 0;
    JANUS_UNROLL
    for (int i = 0; i < kFour; ++i) {
      const uint32_t magnitude = MagnitudeOf(x.of[i]);
      if (magnitude < kInfinity && magnitude > most) most = magnitude;
    }
    return most;
  }

  template <int kWords>
  struct Held {
    Words<kWords> x[kTurns];
  };

  template <int kWords, bool kByVectors, class Block>
  JANUS_DEVICE void Run(Block& block) const {
    constexpr DType kType = kWords == 4 ? DType::kFloat32 : DType::kBFloat16;
    block.Warps([&](auto& warp) {
      const RowPart part = PartOfWarp(block.index(), warp.index() * kLanes, a.hidden, kPart);
      if (part.row >= a.rows) return;
      const int64_t blocks = (a.hidden + kScaleBlock - 1) / kScaleBlock;
      const void* const x = static_cast<const unsigned char*>(a.x) +
                            part.row * (a.x_stride != 0 ? a.x_stride : a.hidden) * kWords;
      uint8_t* const packed =
          a.packed + part.row * (a.packed_stride != 0 ? a.packed_stride : a.hidden);
      float* const scales = a.scales + part.row * (a.scale_stride != 0 ? a.scale_stride : blocks) +
                            part.first / kScaleBlock;
      PerLane<Held<kWords>> held;
      warp.Lanes([&](int lane) {
        JANUS_UNROLL
        for (int i = 0; i < kTurns; ++i) {
          held[lane].x[i] = LoadFourWords<kWords, kByVectors>(
              x, part.first + i * kWarpFours + lane * kFour, a.hidden);
        }
      });
      JANUS_UNROLL
      for (int i = 0; i < kTurns; ++i) {
        const int64_t begin = part.first + i * kWarpFours;
        if (begin >= a.hidden) break;
        const float amax = std::bit_cast<float>(
            warp.Max([&](int lane) { return LargestOf(FourOf(held[lane].x[i], kType)); }));
        const bool is_zero = amax < kLeastFp8Amax;
        const float factor = is_zero ? 0.0f : 448.0f / amax;
        warp.Lanes([&](int lane) {
          if (lane == 0) scales[i] = is_zero ? 0.0f : amax / 448.0f;
          const Words<1> four = {{PackFour(FourOf(held[lane].x[i], kType), factor)}};
          StoreFourWords<kByVectors>(packed, begin + lane * kFour, a.hidden, four);
        });
      }
    });
  }
};
inline Plan PlanPackFp8(const PackFp8Args& a) {
  const int64_t count = a.rows * a.hidden;
  return PlanRowParts(a.rows, a.hidden, PackRowsKernel::kPart,
                      count * (SizeOf(a.x_dtype) + 1) + a.rows * 4 * ScaleBlocks(a.hidden), 0);
}

struct UnpackRowsKernel {
  static constexpr int kThreads = kRowThreads;
  static constexpr int kTurns = 4;
  static constexpr int kPart = kTurns * kWarpFours;
  UnpackFp8Args a;

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    // Rows that lie apart may lie anywhere.
    const bool by_vectors = a.packed_list == nullptr &&
                            GoesByVectors(a.y, a.y_dtype, a.hidden, a.y_stride) &&
                            GoesByVectors(a.packed, DType::kFloat8E4M3, a.hidden, a.packed_stride);
    block.Phase([&](int thread) {
      const RowPart part = PartOfWarp(block.index(), thread, a.hidden, kPart);
      if (part.row >= a.rows) return;
      by_vectors ? Unpack<true>(part) : Unpack<false>(part);
    });
  }

 private:
  template <bool kByVectors>
  JANUS_DEVICE void Unpack(const RowPart& part) const {
    const int64_t blocks = (a.hidden + kScaleBlock - 1) / kScaleBlock;
    const auto* const listed =
        a.packed_list != nullptr ? static_cast<const uint8_t*>(a.packed_list[part.row]) : nullptr;
    const uint8_t* const packed =
        listed != nullptr
            ? listed
            : a.packed + part.row * (a.packed_stride != 0 ? a.packed_stride : a.hidden);
    const float* const scales =
        listed != nullptr ? reinterpret_cast<const float*>(listed + a.list_scales_at)
                          : a.scales + part.row * (a.scale_stride != 0 ? a.scale_stride : blocks);
    void* const y = static_cast<unsigned char*>(a.y) +
                    part.row * (a.y_stride != 0 ? a.y_stride : a.hidden) * SizeOf(a.y_dtype);
    Words<1> fours[kTurns];
    float scale[kTurns];
    JANUS_UNROLL
    for (int i = 0; i < kTurns; ++i) {
      const int64_t h = part.first + i * kWarpFours;
      fours[i] = LoadFourWords<1, kByVectors>(packed, h, a.hidden);
      scale[i] = h < a.hidden ? scales[h / kScaleBlock] : 0.0f;
    }
    JANUS_UNROLL
    for (int i = 0; i < kTurns; ++i) {
      Four four;
      JANUS_UNROLL
      for (int j = 0; j < kFour; ++j) {
        four.of[j] = UnpackFloat8(fours[i].of[0] >> (8 * j) & 0xFFu, scale[i]);
      }
      StoreFour<kByVectors>(y, a.y_dtype, part.first + i * kWarpFours, a.hidden, four);
    }
  }
};
inline Plan PlanUnpackFp8(const UnpackFp8Args& a) {
  const int64_t count = a.rows * a.hidden;
  return PlanRowParts(a.rows, a.hidden, UnpackRowsKernel::kPart,
                      count * (SizeOf(a.y_dtype) + 1) + a.rows * 4 * ScaleBlocks(a.hidden), 0);
}

}  // namespace janus::kernels::cuda
