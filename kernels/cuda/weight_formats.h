#pragma once

// The differences between weights of 16, 8 and 4 bits in the matrix product of weight_tile.h: which
// tiles exist, and how a warp multiplies a stage of shared memory.
//
// Weights of 8 bits are fp8 E4M3 with a scale for each block of kScaleBlock rows and columns. They
// stay in 8 bits up to the registers, where each becomes the bfloat16 of the same value. A step of
// the inner axis is a block of scales. It has a separate sum, which one fma multiplies by the scale
// and adds.
//
// ldmatrix moves units of 16 bits. Of 16 8-bit weights of a row, a lane gets 4 neighbours, where
// the tensor cores' fragment has two pairs that lie 8 apart. So the lane's pairs are these 4, and
// its activations are read as the same 4 neighbours. The places of the 16 terms of a multiplication
// only change the order in which the tensor cores add them, which is unspecified anyway.
//
// Weights of 4 bits are mxfp4, with a scale for each block of kMxBlock of a row. ldmatrix gives a
// lane 8 neighbours of a row. A transposition among four lanes gives it the pairs that it has of
// 16-bit weights, which become bfloat16 with their scale. So the operands of every multiplication
// are those of the same weights in bfloat16, place by place, and so are all bits.

#include "common/dtype.h"
#include "kernels/cuda/stages.h"
#include "kernels/cuda/tile.h"

namespace janus::kernels::cuda {

// Where a chunk of 16 bytes lies in a stage: of row `row` from row `first` on, a multiple of 8. The
// chunks of 128 bytes are permuted by the number of their row, or of the two that share them, so
// that the 8 rows which ldmatrix reads at once have theirs in different banks.
template <int kRowBytes>
JANUS_DEVICE constexpr int ChunkOffset(int first, int row, int chunk) {
  constexpr int kRowsInLine = kRowBytes < 128 ? 128 / kRowBytes : 1;
  constexpr int kChunks = kRowBytes < 128 ? kRowBytes / kCopyBytes : 8;
  return (first + row) * kRowBytes + (chunk ^ row / kRowsInLine % kChunks) * kCopyBytes;
}

// One half of a tile's weights: `rows` rows of a matrix, one after the other.
template <class Element>
struct WeightHalf {
  const Element* first = nullptr;
  int rows = 0;
  // fp8: float, for the one row of blocks in which they lie. mxfp4: uint8_t, the scales of the
  // first row, followed by those of the others.
  const void* scales = nullptr;
};

template <int kBits>
struct WeightFormat;

// bfloat16.
template <>
struct WeightFormat<16> {
  using Element = uint16_t;  // which holds so many weights
  static constexpr int kWeights = 1;
  static constexpr bool kIsScaled = false;
  static constexpr int kScaleBytes = 0;  // of a weight row in a stage
  static constexpr int kWarps = 2;
  static constexpr int kWeightRowBytes = 128;        // in a stage: one line of the cache
  static constexpr int kStep = kWeightRowBytes / 2;  // of the inner axis
  // How many times 64 rows of weights a tile has with so many rows of activations.
  JANUS_DEVICE static constexpr int WidthFor(int rows) { return rows > 32 ? 2 : 1; }
  struct Scales {};

  // Where a chunk of activations lies behind the weights of a stage, as ChunkOffset.
  JANUS_DEVICE static constexpr int RowOffset(int first, int row, int chunk) {
    return ChunkOffset<2 * kStep>(first, row, chunk);
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
  static constexpr int kWeights = 1;
  static constexpr bool kIsScaled = true;
  static constexpr int kScaleBytes = 0;
  // Twice the threads: each weight costs instructions, and a lane has each sum twice, of the step
  // and of all steps.
  static constexpr int kWarps = 4;
  static constexpr int kWeightRowBytes = 128;
  static constexpr int kStep = kWeightRowBytes;
  static_assert(kStep == kScaleBlock);
  // A row of activations is twice as many bytes beside the weights as in 16 bits.
  JANUS_DEVICE static constexpr int WidthFor(int rows) { return rows > 8 ? 2 : 1; }
  struct Scales {
    float of[2] = {};  // of either half
  };
  JANUS_DEVICE static Scales ScalesOf(const WeightHalf<Element> (&w)[2], int step) {
    return {{static_cast<const float*>(w[0].scales)[step],
             static_cast<const float*>(w[1].scales)[step]}};
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

// mxfp4.
template <>
struct WeightFormat<4> {
  using Element = uint8_t;
  static constexpr int kWeights = 2;
  static constexpr bool kIsScaled = false;
  static constexpr int kWarps = 4;  // each weight costs instructions
  static constexpr int kWeightRowBytes = 64;
  static constexpr int kStep = 2 * kWeightRowBytes;
  // Scales are brought into the stage with their weights: a word for the blocks of a row.
  static constexpr int kScaleBytes = kStep / kMxBlock;
  static_assert(kScaleBytes == kWordBytes);
  // A row of activations is four times as many bytes beside the weights as in 16 bits. Beside 64 of
  // them the stages have no room for more than twice the weights.
  JANUS_DEVICE static constexpr int WidthFor(int rows) {
    return rows <= 8 ? 1 : rows <= 16 || rows > 32 ? 2 : 4;
  }
  struct Scales {};

  JANUS_DEVICE static constexpr int RowOffset(int first, int row, int chunk) {
    return ChunkOffset<2 * kStep>(first, row, chunk);
  }

  // `is_half`: the step has no second half, and nothing is added for it, not even zeros. Weights in
  // 16 bits have steps of half the length and add no zeros there either; a sum of -0 would show the
  // difference.
  template <class Tile, class Warp>
  JANUS_DEVICE static void Multiply(Warp& warp, const unsigned char* stage, bool is_half,
                                    PerThread<typename Tile::Sums, Tile::kThreads>& sums) {
    static_assert(kStep == 2 * WeightFormat<16>::kStep);
    PerLane<RowScales<Tile>> scales;
    warp.Lanes([&](int lane) {
      JANUS_UNROLL
      for (int m = 0; m < Tile::kBlocks16; ++m) {
        JANUS_UNROLL
        for (int half = 0; half < 2; ++half) {
          const int row = half * Tile::kHalf + Tile::FirstRow(warp.index(), m) + lane / 4;
          scales[lane].of[m][half] =
              *reinterpret_cast<const uint32_t*>(stage + Tile::kScalesAt + row * kScaleBytes);
        }
      }
    });
    // Scales of 2 or more need another factor. No known model has such scales.
    const uint32_t large = warp.Ballot([&](int lane) {
      uint32_t any = 0;
      JANUS_UNROLL
      for (int m = 0; m < Tile::kBlocks16; ++m)
        any |= scales[lane].of[m][0] | scales[lane].of[m][1];
      return (any & 0x80808080u) != 0;
    });
    if (large == 0) {
      MultiplyBlocks<false, Tile>(warp, stage, is_half, scales, sums);
    } else {
      MultiplyBlocks<true, Tile>(warp, stage, is_half, scales, sums);
    }
  }

 private:
  // Of a lane's rows of either half in each block of 16.
  template <class Tile>
  struct RowScales {
    uint32_t of[Tile::kBlocks16][2];
  };
  // Of kMxBlock of the inner axis: operands of two multiplications.
  template <class Tile>
  struct Operands {
    uint32_t of[2][Tile::kBlocks16][4];
  };

  template <bool kIsLarge, class Tile, class Warp>
  JANUS_DEVICE static void MultiplyBlocks(Warp& warp, const unsigned char* stage, bool is_half,
                                          PerLane<RowScales<Tile>>& scales,
                                          PerThread<typename Tile::Sums, Tile::kThreads>& sums) {
    PerLane<typename Tile::Weights> packed;
    PerLane<Operands<Tile>> a;
    const int first_lane = warp.index() * kLanes;
    JANUS_UNROLL
    for (int chunk = 0; chunk < Tile::kWeightChunks; ++chunk) {
      if (chunk == Tile::kWeightChunks / 2 && is_half) return;
      if (chunk % 2 == 0) Tile::LoadWeights(warp, stage, chunk, packed);
      JANUS_UNROLL
      for (int m = 0; m < Tile::kBlocks16; ++m) {
        JANUS_UNROLL
        for (int half = 0; half < 2; ++half) {
          const auto eight = [&](int lane) -> uint32_t& {
            return packed[lane].of[m][chunk % 2 * 2 + half];
          };
          TransposeBytes(warp, eight);
          ForLanes(warp, [&](int lane) {
            const auto factors =
                FactorsOf<kIsLarge>(scales[lane].of[m][half], static_cast<uint32_t>(chunk));
            auto& to = a[lane].of;
            to[0][m][half] = BFloat16OfMxfp4<kIsLarge, 0>(eight(lane), factors);
            to[0][m][half + 2] = BFloat16OfMxfp4<kIsLarge, 1>(eight(lane), factors);
            to[1][m][half] = BFloat16OfMxfp4<kIsLarge, 2>(eight(lane), factors);
            to[1][m][half + 2] = BFloat16OfMxfp4<kIsLarge, 3>(eight(lane), factors);
          });
        }
      }
      if constexpr (Tile::kBlocks8 == 1) {
        MultiplyOneBlock<Tile>(warp, stage, chunk, a, sums);
      } else {
        JANUS_UNROLL
        for (int i = 0; i < 2; ++i) {
          MultiplyRows<Tile::kBlocks16, Tile::kBlocks8>(
              warp, [&](int lane) { return sums[first_lane + lane].of; },
              [&](int lane) { return a[lane].of[i]; },
              [&](int n, int row, int half) {
                return stage + Tile::kRowsAt + RowOffset(8 * n, row, 4 * chunk + 2 * i + half);
              });
        }
      }
    }
  }

  // One load gives the operands of both multiplications for 8 rows of activations.
  template <class Tile, class Warp>
  JANUS_DEVICE static void MultiplyOneBlock(Warp& warp, const unsigned char* stage, int chunk,
                                            PerLane<Operands<Tile>>& a,
                                            PerThread<typename Tile::Sums, Tile::kThreads>& sums) {
    struct Activations {
      uint32_t of[4];
    };
    PerLane<Activations> b;
    const int first_lane = warp.index() * kLanes;
    LoadMatrices(
        warp, [&](int lane) -> uint32_t(&)[4] { return b[lane].of; },
        [&](int lane) {
          return stage + Tile::kRowsAt + RowOffset(0, lane % 8, 4 * chunk + lane / 8);
        });
    JANUS_UNROLL
    for (int i = 0; i < 2; ++i) {
      JANUS_UNROLL
      for (int m = 0; m < Tile::kBlocks16; ++m) {
        MultiplyAdd(
            warp, [&](int lane) -> float(&)[4] { return sums[first_lane + lane].of[m][0]; },
            [&](int lane) -> const uint32_t* { return a[lane].of[i][m]; },
            [&](int lane) -> const uint32_t* { return b[lane].of + 2 * i; });
      }
    }
  }
};

// Up to Tile::kHalf rows of a matrix [rows,inner] from row `first` on; there may be none. `scales`
// are the matrix's.
template <class Tile>
JANUS_DEVICE auto HalfOfMatrix(const void* matrix, const void* scales, int64_t rows, int64_t inner,
                               int64_t first) {
  using Format = typename Tile::Format;
  using Element = typename Format::Element;
  static_assert(kScaleBlock % Tile::kHalf == 0, "a half lies in one row of blocks of scales");
  const auto* const begin = static_cast<const Element*>(matrix);
  if (first >= rows) return WeightHalf<Element>{begin, 0, scales};
  if constexpr (Format::kIsScaled) {
    scales = static_cast<const float*>(scales) + first / kScaleBlock * ScaleBlocks(inner);
  }
  if constexpr (Format::kScaleBytes != 0) {
    scales = static_cast<const uint8_t*>(scales) + first * (inner / kMxBlock);
  }
  return WeightHalf<Element>{begin + first * (inner / Format::kWeights),
                             PartOfTile(rows, first, Tile::kHalf), scales};
}

}  // namespace janus::kernels::cuda
