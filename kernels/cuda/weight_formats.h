#pragma once

// What the matrix product of weight_tile.h does differently for weights of 16 and of 8 bits: which
// tiles there are, and how a warp multiplies what a stage of shared memory holds.
//
// Weights of 8 bits are fp8 E4M3 with a scale for each block of kScaleBlock rows and columns. They
// stay in 8 bits up to the registers, where each becomes the bfloat16 of the same value. A step of
// the inner axis is a block of scales: its sum is taken alone and added times the scale, by fma.
//
// ldmatrix moves 16 bits: of 16 weights of a row in 8 bits a lane gets 4 that follow one another,
// where the tensor cores' fragment has two pairs that lie 8 apart. So the lane's pairs are these
// two, and its activations are read as the same 4 neighbours. Which of the 16 terms of one
// multiplication is in which place changes nothing but the order in which the tensor cores add
// them, which is theirs anyway.

#include "common/dtype.h"
#include "kernels/cuda/stages.h"

namespace janus::kernels::cuda {

inline constexpr int kWeightRowBytes = 128;  // of a weight row in a stage: one line of the cache

// Where a chunk of 16 bytes of weights lies in a stage: of row `row` from row `first` on, a
// multiple of 8. A row's 8 chunks are permuted by its number, so that the 8 rows which ldmatrix
// reads at once have theirs in different banks.
JANUS_DEVICE constexpr int ChunkOffset(int first, int row, int chunk) {
  return first * kWeightRowBytes + row * kWeightRowBytes + (chunk ^ row % 8) * kCopyBytes;
}

// One half of a tile's weights: `rows` rows of a matrix, one after the other.
template <class Element>
struct WeightHalf {
  const Element* first = nullptr;
  int rows = 0;
  const float* scales = nullptr;  // of fp8: of the one row of blocks that they lie in
};

template <int kBits>
struct WeightFormat;

// bfloat16.
template <>
struct WeightFormat<16> {
  using Element = uint16_t;
  static constexpr bool kIsScaled = false;
  static constexpr int kWarps = 2;
  static constexpr int kStep = kWeightRowBytes / 2;  // of the inner axis
  // Up to so many rows of activations a tile has 64 rows of weights, else twice as many.
  static constexpr int kMostNarrowRows = 32;
  struct Scales {};

  // Where a chunk of activations lies behind the weights of a stage, as ChunkOffset.
  JANUS_DEVICE static constexpr int RowOffset(int first, int row, int chunk) {
    return ChunkOffset(first, row, chunk);
  }

  // sums += the product over one stage.
  template <class Tile, class Warp>
  JANUS_DEVICE static void Multiply(Warp& warp, const unsigned char* stage,
                                    PerThread<Scales, Tile::kThreads>&,
                                    PerThread<typename Tile::Sums, Tile::kThreads>& sums) {
    PerLane<typename Tile::Weights> a;
    const int first_lane = warp.index() * kLanes;
    JANUS_UNROLL
    for (int chunk = 0; chunk < Tile::kWeightChunks; chunk += 2) {
      Tile::LoadWeights(warp, stage, chunk, a);
      MultiplyRows<Tile::kBlocks16, Tile::kBlocks8>(
          warp, [&](int lane) { return sums[first_lane + lane].of; },
          [&](int lane) { return a[lane].of; },
          [&](int n, int row, int half) {
            return stage + Tile::kRowsAt + RowOffset(8 * n, row, chunk + half);
          });
    }
  }
};

// fp8 E4M3 with scales.
template <>
struct WeightFormat<8> {
  using Element = uint8_t;
  static constexpr bool kIsScaled = true;
  // Twice the threads: each weight costs instructions, and a lane has each sum twice, of the step
  // and of all.
  static constexpr int kWarps = 4;
  static constexpr int kStep = kWeightRowBytes;
  static_assert(kStep == kScaleBlock);
  // A row of activations is twice as many bytes beside the weights as in 16 bits.
  static constexpr int kMostNarrowRows = 8;
  struct Scales {
    float of[2] = {};  // of either half
  };
  JANUS_DEVICE static Scales ScalesOf(const WeightHalf<Element> (&w)[2], int step) {
    return {{w[0].scales[step], w[1].scales[step]}};
  }

  // A row's 16 chunks are permuted so that 4 rows, of which 16 lanes read two chunks each in words
  // of 8 bytes, have theirs in different banks.
  JANUS_DEVICE static constexpr int RowOffset(int first, int row, int chunk) {
    return (first + row) * 2 * kStep + (chunk ^ row % 4 * 2) * kCopyBytes;
  }

  template <class Tile, class Warp>
  JANUS_DEVICE static void Multiply(Warp& warp, const unsigned char* stage,
                                    PerThread<Scales, Tile::kThreads>& scales,
                                    PerThread<typename Tile::Sums, Tile::kThreads>& sums) {
    struct Activations {
      uint32_t of[2];
    };
    PerLane<typename Tile::Weights> packed;
    PerLane<typename Tile::Weights> a;
    PerLane<Activations> b;
    PerLane<typename Tile::Sums> parts;  // of this block of scales
    JANUS_UNROLL
    for (int chunk = 0; chunk < Tile::kWeightChunks; ++chunk) {
      if (chunk % 2 == 0) Tile::LoadWeights(warp, stage, chunk, packed);
      JANUS_UNROLL
      for (int m = 0; m < Tile::kBlocks16; ++m) {
        JANUS_UNROLL
        for (int half = 0; half < 2; ++half) {
          ExpandFloat8(
              warp, [&](int lane) { return packed[lane].of[m][chunk % 2 * 2 + half]; },
              [&](int lane) -> uint32_t& { return a[lane].of[m][half]; },
              [&](int lane) -> uint32_t& { return a[lane].of[m][half + 2]; });
        }
      }
      JANUS_UNROLL
      for (int n = 0; n < Tile::kBlocks8; ++n) {
        LoadNeighbours(
            warp, [&](int lane) -> uint32_t(&)[2] { return b[lane].of; },
            [&](int lane) {
              return stage + Tile::kRowsAt + RowOffset(8 * n, lane / 4, 2 * chunk + lane % 4 / 2) +
                     lane % 2 * 8;
            });
        JANUS_UNROLL
        for (int m = 0; m < Tile::kBlocks16; ++m) {
          MultiplyAdd<InnerOrder::kNeighbours>(
              warp, [&](int lane) -> float(&)[4] { return parts[lane].of[m][n]; },
              [&](int lane) -> const uint32_t* { return a[lane].of[m]; },
              [&](int lane) -> const uint32_t* { return b[lane].of; });
        }
      }
    }
    const int first_lane = warp.index() * kLanes;
    warp.Lanes([&](int lane) {
      const Scales& scale = scales[first_lane + lane];
      typename Tile::Sums& sum = sums[first_lane + lane];
      JANUS_UNROLL
      for (int m = 0; m < Tile::kBlocks16; ++m) {
        JANUS_UNROLL
        for (int n = 0; n < Tile::kBlocks8; ++n) {
          JANUS_UNROLL
          for (int i = 0; i < 4; ++i) {
            sum.of[m][n][i] = fmaf(parts[lane].of[m][n][i], scale.of[i / 2], sum.of[m][n][i]);
          }
        }
      }
    });
  }
};

}  // namespace janus::kernels::cuda
