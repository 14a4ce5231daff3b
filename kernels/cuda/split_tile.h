#pragma once

// The matrix product of projections: a block computes rows x weights^T of bfloat16 with the tensor
// cores, and its four warps divide the inner axis among themselves. So neither operand is read
// twice from shared memory, and a matrix of few outputs still has many blocks, of 16 outputs each.
//
// The weights are the 16-row operand, as in weight_tile.h: one row of activations pads to 8. They
// lie as [outputs,inner] or, transposed, as [inner,outputs].
//
// The order of a sum: the inner axis is cut into pieces of 16 elements; those beyond the end are
// zeros. Piece p belongs to split p % 4, which starts at 0 and takes its pieces from the first to
// the last. The four splits are added from the first to the last. The tile, the other rows and how
// far copies run ahead do not change this order, so the product is batch-invariant.

#include "common/dtype.h"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/stages.h"

namespace janus::kernels::cuda {

inline constexpr int kSplits = 4;
inline constexpr int kMostSplitRows = 64;  // of activations, of a tile

// A tile of kRows rows of activations by kOutputs of weights. A stage of shared memory holds kLines
// lines of 128 bytes of each; of transposed weights as many of 64 outputs.
template <int kWeights, int kActivations, int kLinesOfStage, bool kTransposed = false>
struct SplitTile {
  static constexpr bool kIsTransposed = kTransposed;
  static constexpr int kOutputs = kWeights;
  static constexpr int kRows = kActivations;
  static constexpr int kLines = kLinesOfStage;
  static constexpr int kThreads = kSplits * kLanes;
  static constexpr int kLine = kSplits * 16;  // elements: a piece for each split
  static constexpr int kStep = kLines * kLine;
  static constexpr int kLineBytes = 2 * kLine;
  static constexpr int kStageRows = kOutputs + kRows;  // weights first
  static constexpr int kStageBytes = kLines * kStageRows * kLineBytes;
  static constexpr int64_t kSharedBytes = 96 << 10;
  static constexpr int kStages = kSharedBytes / kStageBytes;
  static constexpr int kBlocks16 = kOutputs / 16;
  static constexpr int kBlocks8 = kRows / 8;
  // In the end, where the stages were: fp32 sums [split][row][output]. So padded, a warp's lanes
  // write theirs to banks of their own.
  static constexpr int kSumPitch = kOutputs + 4;

  // A lane's part of its split's sums.
  struct Sums {
    float of[kBlocks16][kBlocks8][4] = {};
  };
  static_assert(kLineBytes == 128 && kStages >= 3);
  static_assert(!kIsTransposed || kOutputs == kLine);
  static_assert(kSplits * kRows * kSumPitch * sizeof(float) <= kSharedBytes);
};

// An operand: row(r) is where a row begins, of uint16_t that are bfloat16, or of floats, which are
// rounded to it. `rows` of them are there. Of transposed weights, row(k) is where the tile's
// outputs begin in element k of the inner axis, and `rows` is how many outputs there are.
template <class X>
struct SplitOperand {
  X row;
  int rows;
  bool in_chunks;  // each row begins at a multiple of kCopyBytes
};
template <class X>
SplitOperand(X, int, bool) -> SplitOperand<X>;

// The tile's product over an inner axis of `inner` elements, a multiple of kChunk; finish(row,
// output, sum) for each. Rows may lie at any address of an element: those that copies cannot read
// are moved one by one, with the same bits.
template <class Tile>
class SplitProduct {
 public:
  template <class Block, class W, class X, class Finish>
  JANUS_DEVICE static void Run(Block& block, const SplitOperand<W>& w, const SplitOperand<X>& x,
                               int64_t inner, Finish finish) {
    PerThread<typename Tile::Sums, Tile::kThreads> sums;
    const int steps = static_cast<int>((inner + Tile::kStep - 1) / Tile::kStep);
    RunStages<Tile::kStages>(
        block, steps,
        [&](auto& warp, int step, int stage) { Fill(block, warp, step, stage, w, x, inner); },
        [&](auto& warp, int, int stage) { Multiply(block, warp, stage, sums); });
    AddSplits(block, w.rows, x.rows, sums, finish);
  }

 private:
  static constexpr int kChunks = Tile::kLine / kChunk;          // of a line
  static constexpr int kRowsAtOnce = Tile::kThreads / kChunks;  // that all threads bring
  static_assert(Tile::kOutputs % kRowsAtOnce == 0);

  // Where a chunk of a stage's row lies. A row's 8 chunks are permuted by its number, so that the 8
  // rows which ldmatrix reads at once have theirs in different banks.
  JANUS_DEVICE static constexpr int Offset(int line, int row, int chunk) {
    return (line * Tile::kStageRows + row) * Tile::kLineBytes + (chunk ^ row % 8) * kCopyBytes;
  }

  // Rows 0 .. kCount-1 of an operand, from row kFirst of a stage on: 8 neighbouring threads bring
  // the 8 chunks of a line.
  template <int kFirst, int kCount, class Block, class X>
  JANUS_DEVICE static void FillRows(Block& block, unsigned char* stage, int thread, int64_t k,
                                    int line, const SplitOperand<X>& x, int64_t inner) {
    const int chunk = thread % kChunks;
    JANUS_UNROLL
    for (int first = 0; first < kCount; first += kRowsAtOnce) {
      const int row = first + thread / kChunks;
      if (kCount % kRowsAtOnce != 0 && row >= kCount) continue;
      unsigned char* const to = stage + Offset(line, kFirst + row, chunk);
      const bool is_there = row < x.rows && k < inner;
      Bring(block, to, x.row(row < x.rows ? row : 0) + k, is_there ? kChunk : 0, x.in_chunks);
    }
  }

  // Transposed weights from element `k` of the inner axis on: a line for each, with chunks of
  // outputs that are permuted as those of rows are.
  template <class Block, class W>
  JANUS_DEVICE static void FillTransposed(Block& block, unsigned char* stage, int thread, int64_t k,
                                          int line, const SplitOperand<W>& w, int64_t inner) {
    const int chunk = thread % kChunks;
    JANUS_UNROLL
    for (int first = 0; first < Tile::kLine; first += kRowsAtOnce) {
      const int row = first + thread / kChunks;
      const int left = k + row < inner ? w.rows - chunk * kChunk : 0;
      const int count = left < 0 ? 0 : left < kChunk ? left : kChunk;
      Bring(block, stage + Offset(line, row, chunk), w.row(k + row) + chunk * kChunk, count,
            w.in_chunks);
    }
  }

  template <class Block>
  JANUS_DEVICE static void Bring(Block& block, unsigned char* to, const uint16_t* from, int count,
                                 bool in_chunks) {
    BringChunk(block, to, from, count, in_chunks);
  }
  // Through the registers, rounded.
  template <class Block>
  JANUS_DEVICE static void Bring(Block&, unsigned char* to, const float* from, int count,
                                 bool in_chunks) {
    struct alignas(kCopyBytes) Four {
      float of[4];
    };
    struct alignas(kCopyBytes) Rounded {
      uint16_t of[kChunk];
    };
    Four four[2] = {};
    if (in_chunks && count != 0) {
      four[0] = reinterpret_cast<const Four*>(from)[0];
      four[1] = reinterpret_cast<const Four*>(from)[1];
    } else {
      JANUS_UNROLL
      for (int i = 0; i < kChunk; ++i) four[i / 4].of[i % 4] = i < count ? from[i] : 0.0f;
    }
    Rounded rounded;
    JANUS_UNROLL
    for (int i = 0; i < kChunk; ++i) rounded.of[i] = ToBFloat16(four[i / 4].of[i % 4]);
    *reinterpret_cast<Rounded*>(to) = rounded;
  }

  template <class Block, class Warp, class W, class X>
  JANUS_DEVICE static void Fill(Block& block, Warp& warp, int step, int stage,
                                const SplitOperand<W>& w, const SplitOperand<X>& x, int64_t inner) {
    unsigned char* const to = block.shared() + stage * Tile::kStageBytes;
    warp.Lanes([&](int lane) {
      const int thread = warp.index() * kLanes + lane;
      JANUS_UNROLL
      for (int line = 0; line < Tile::kLines; ++line) {
        const int64_t k =
            int64_t{step} * Tile::kStep + line * Tile::kLine + thread % kChunks * kChunk;
        if constexpr (Tile::kIsTransposed) {
          FillTransposed(block, to, thread, int64_t{step} * Tile::kStep + line * Tile::kLine, line,
                         w, inner);
        } else {
          FillRows<0, Tile::kOutputs>(block, to, thread, k, line, w, inner);
        }
        FillRows<Tile::kOutputs, Tile::kRows>(block, to, thread, k, line, x, inner);
      }
    });
  }

  // sums += the product over the warp's pieces of a stage.
  template <class Block, class Warp>
  JANUS_DEVICE static void Multiply(Block& block, Warp& warp, int stage,
                                    PerThread<typename Tile::Sums, Tile::kThreads>& sums) {
    struct Weights {
      uint32_t of[Tile::kBlocks16][4];
    };
    const unsigned char* const shared = block.shared() + stage * Tile::kStageBytes;
    const int piece = 2 * warp.index();  // its first chunk
    const int first_lane = warp.index() * kLanes;
    PerLane<Weights> a;
    JANUS_UNROLL
    for (int line = 0; line < Tile::kLines; ++line) {
      JANUS_UNROLL
      for (int m = 0; m < Tile::kBlocks16; ++m) {
        const auto to = [&](int lane) -> uint32_t(&)[4] { return a[lane].of[m]; };
        if constexpr (Tile::kIsTransposed) {
          LoadTransposed(warp, to, [&](int lane) {
            const int k = kChunk * piece + lane / 16 * 8 + lane % 8;
            return shared + Offset(line, k, 2 * m + lane / 8 % 2);
          });
        } else {
          LoadMatrices(warp, to, [&](int lane) {
            return shared + Offset(line, 16 * m + lane % 16, piece + lane / 16);
          });
        }
      }
      MultiplyRows<Tile::kBlocks16, Tile::kBlocks8>(
          warp, [&](int lane) { return sums[first_lane + lane].of; },
          [&](int lane) { return a[lane].of; },
          [&](int n, int row, int half) {
            return shared + Offset(line, Tile::kOutputs + 8 * n + row, piece + half);
          });
    }
  }

  template <class Block, class Finish>
  JANUS_DEVICE static void AddSplits(Block& block, int outputs, int rows,
                                     PerThread<typename Tile::Sums, Tile::kThreads>& sums,
                                     Finish finish) {
    auto* const shared = reinterpret_cast<float*>(block.shared());
    block.Phase([&](int thread) {
      const int lane = thread % kLanes;
      const typename Tile::Sums& sum = sums[thread];
      float* const to = shared + thread / kLanes * Tile::kRows * Tile::kSumPitch;
      JANUS_UNROLL
      for (int m = 0; m < Tile::kBlocks16; ++m) {
        JANUS_UNROLL
        for (int n = 0; n < Tile::kBlocks8; ++n) {
          JANUS_UNROLL
          for (int i = 0; i < 4; ++i) {
            const int output = 16 * m + lane / 4 + i / 2 * 8;
            const int row = 8 * n + lane % 4 * 2 + i % 2;
            to[row * Tile::kSumPitch + output] = sum.of[m][n][i];
          }
        }
      }
    });
    block.Phase([&](int thread) {
      for (int at = thread; at < rows * Tile::kOutputs; at += Tile::kThreads) {
        const int output = at % Tile::kOutputs;
        if (output >= outputs) continue;
        const int row = at / Tile::kOutputs;
        const float* const from = shared + row * Tile::kSumPitch + output;
        float sum = from[0];
        JANUS_UNROLL
        for (int split = 1; split < kSplits; ++split) {
          sum += from[split * Tile::kRows * Tile::kSumPitch];
        }
        finish(row, output, sum);
      }
    });
  }
};

}  // namespace janus::kernels::cuda
