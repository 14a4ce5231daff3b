#pragma once

// The matrix product of fast kernels for few rows: a block computes weights x rows^T of bfloat16
// with the tensor cores, whose 16-row operand is the weights; a row of activations is one of 8
// columns. So one row pads to 8 and not to 16 or 64, and each weight is multiplied as it is read.
//
// Bound by the read of the weights, up to 64 rows. Both operands come through shared memory in
// steps of the inner axis, by asynchronous copies that run several steps ahead.
//
// An element's sum starts at 0 and takes 16 elements of the inner axis after the other, from the
// first to the last, those beyond the end being zeros: whatever the tile, the rows beside it and
// how far copies run ahead. That is all of batch invariance here.

#include "kernels/cuda/plan.h"
#include "kernels/cuda/tensor.h"

namespace janus::kernels::cuda {

inline constexpr int kMostTileRows = 64;  // of activations

// A tile of kRows rows of activations by 64 * kPairs rows of weights. The latter are two halves: of
// two matrices (gate and up), or of one. Each of the two warps has kPairs times 16 rows of either
// half, so that a lane has both halves of its outputs.
template <int kActivations, int kWeightPairs>
struct WeightTile {
  static constexpr int kRows = kActivations;
  static constexpr int kPairs = kWeightPairs;
  static constexpr int kWarps = 2;
  static constexpr int kThreads = kWarps * kLanes;
  static constexpr int kHalf = kWarps * kPairs * 16;  // weight rows of a half
  static constexpr int kStep = 64;  // of the inner axis: 128 bytes of a row, one line of the cache
  static constexpr int kRowBytes = 2 * kStep;
  static constexpr int kStageBytes = (2 * kHalf + kRows) * kRowBytes;
  // Of shared memory: the stages, then where each row of activations begins.
  static constexpr int kStagesBytes = 96 << 10;
  static constexpr int kStages = kStagesBytes / kStageBytes;
  static constexpr int64_t kSharedBytes = kStagesBytes + kMostTileRows * sizeof(const uint16_t*);
  static constexpr int kBlocks16 = 2 * kPairs;  // of 16 weight rows, of a warp
  static constexpr int kBlocks8 = kRows / 8;    // of 8 rows of activations

  // A lane's part of the result.
  struct Sums {
    float of[kBlocks16][kBlocks8][4] = {};
  };
};
using AnyWeightTile = WeightTile<8, 1>;

// Where a chunk lies in a stage: of row row8 (0..7) among the 8 from row `first` on, a multiple
// of 8. A row's 8 chunks are permuted by its number, so that the 8 rows which ldmatrix reads at
// once have theirs in different banks.
JANUS_DEVICE constexpr int ChunkOffset(int first, int row8, int chunk) {
  return first * AnyWeightTile::kRowBytes + row8 * AnyWeightTile::kRowBytes +
         (chunk ^ row8) * kCopyBytes;
}

// One half of a tile's weights: `rows` rows of a matrix, one after the other.
struct WeightHalf {
  const uint16_t* first = nullptr;
  int rows = 0;
};

// The tile's product over an inner axis of `inner` elements, a multiple of kChunk. x(row) is where
// a row of activations begins; `rows` of them are there. Rows and weights may lie at any address of
// an element: those that copies cannot read are moved one by one, with the same bits. Begins and
// ends with the shared memory free.
template <class Tile>
class WeightProduct {
 public:
  template <class Block, class X>
  JANUS_DEVICE static void Run(Block& block, const WeightHalf (&w)[2], int rows, int64_t inner, X x,
                               PerThread<typename Tile::Sums, Tile::kThreads>& sums) {
    const int steps = static_cast<int>((inner + Tile::kStep - 1) / Tile::kStep);
    block.Phase([&](int thread) {
      if (thread < Tile::kRows) RowsOf(block)[thread] = x(thread < rows ? thread : 0);
    });
    // Whether asynchronous copies can read what a thread brings.
    PerThread<CanCopy, Tile::kThreads> can_copy;
    block.Phase([&](int thread) {
      CanCopy& can = can_copy[thread];
      can.weights = IsAligned(w[0].first) && IsAligned(w[1].first);
      for (int row = thread / kChunks; row < Tile::kRows; row += 8) {
        can.rows = can.rows && IsAligned(RowsOf(block)[row]);
      }
    });
    int filled = 0;  // the stage that is filled next
    JANUS_KEEP_LOOP
    for (int step = 0; step < Tile::kStages - 1; ++step) {
      block.template CopyingWarps<Tile::kStages - 2>([&](auto& warp) {
        if (step < steps) Fill(block, warp, step, filled, w, rows, inner, can_copy);
      });
      filled = Next(filled);
    }
    int read = 0;  // the stage that is multiplied next
    JANUS_KEEP_LOOP
    for (int step = 0; step < steps; ++step) {
      // The stage that is filled here is the one that the step before has read.
      block.template CopyingWarps<Tile::kStages - 2>([&](auto& warp) {
        const int ahead = step + Tile::kStages - 1;
        if (ahead < steps) Fill(block, warp, ahead, filled, w, rows, inner, can_copy);
        Multiply(block, warp, read, sums);
      });
      filled = Next(filled);
      read = Next(read);
    }
  }

 private:
  static constexpr int kChunks = Tile::kStep / kChunk;  // of a row in a stage
  static_assert(Tile::kStages >= 3 && Tile::kThreads == 8 * kChunks &&
                Tile::kRows <= kMostTileRows && kMostTileRows <= Tile::kThreads);

  template <class Block>
  JANUS_DEVICE static const uint16_t** RowsOf(Block& block) {
    return reinterpret_cast<const uint16_t**>(block.shared() + Tile::kStagesBytes);
  }

  JANUS_DEVICE static bool IsAligned(const void* address) {
    return reinterpret_cast<uintptr_t>(address) % kCopyBytes == 0;
  }
  JANUS_DEVICE static int Next(int stage) { return stage + 1 == Tile::kStages ? 0 : stage + 1; }

  struct CanCopy {
    bool weights = true;
    bool rows = true;
  };

  // A chunk of a stage, zeros unless `read`: asynchronously, or element by element from any
  // address.
  template <bool kAsync, class Block>
  JANUS_DEVICE static void Bring(Block& block, unsigned char* to, const uint16_t* from, bool read) {
    if constexpr (kAsync) {
      block.CopyAsync(to, from, read);
    } else {
      auto* const elements = reinterpret_cast<uint16_t*>(to);
      JANUS_KEEP_LOOP
      for (int i = 0; i < kChunk; ++i) elements[i] = read ? from[i] : uint16_t{0};
    }
  }

  // A thread's part of a step: its chunk of one row in every 8.
  struct Part {
    int row8;
    int chunk;
    int64_t k;
  };

  template <bool kAsync, class Block>
  JANUS_DEVICE static void FillWeights(Block& block, unsigned char* stage, const Part& part,
                                       const WeightHalf (&w)[2], int64_t inner) {
    JANUS_UNROLL
    for (int half = 0; half < 2; ++half) {
      const uint16_t* from = w[half].first + part.row8 * inner + part.k;
      JANUS_UNROLL
      for (int row = 0; row < Tile::kHalf; row += 8) {
        Bring<kAsync>(block, stage + ChunkOffset(half * Tile::kHalf + row, part.row8, part.chunk),
                      from, part.k < inner && row + part.row8 < w[half].rows);
        from += 8 * inner;
      }
    }
  }

  template <bool kAsync, class Block>
  JANUS_DEVICE static void FillRows(Block& block, unsigned char* stage, const Part& part, int rows,
                                    int64_t inner) {
    JANUS_UNROLL
    for (int row = 0; row < Tile::kRows; row += 8) {
      Bring<kAsync>(block, stage + ChunkOffset(2 * Tile::kHalf + row, part.row8, part.chunk),
                    RowsOf(block)[row + part.row8] + part.k,
                    part.k < inner && row + part.row8 < rows);
    }
  }

  // Brings step `step` of the inner axis into a stage: 8 neighbouring threads bring the 8 chunks of
  // a row. In few instructions a copy, since a warp is almost alone on its scheduler: so the
  // address of what is not read is whatever comes out; nothing touches it.
  template <class Block, class Warp>
  JANUS_DEVICE static void Fill(Block& block, Warp& warp, int step, int stage,
                                const WeightHalf (&w)[2], int rows, int64_t inner,
                                PerThread<CanCopy, Tile::kThreads>& can_copy) {
    unsigned char* const to = block.shared() + stage * Tile::kStageBytes;
    warp.Lanes([&](int lane) {
      const int thread = warp.index() * kLanes + lane;
      const int chunk = thread % kChunks;
      const Part part{thread / kChunks, chunk, int64_t{step} * Tile::kStep + chunk * kChunk};
      if (can_copy[thread].weights) {
        FillWeights<true>(block, to, part, w, inner);
      } else {
        FillWeights<false>(block, to, part, w, inner);
      }
      if (can_copy[thread].rows) {
        FillRows<true>(block, to, part, rows, inner);
      } else {
        FillRows<false>(block, to, part, rows, inner);
      }
    });
  }

  // sums += the product over one stage.
  template <class Block, class Warp>
  JANUS_DEVICE static void Multiply(Block& block, Warp& warp, int stage,
                                    PerThread<typename Tile::Sums, Tile::kThreads>& sums) {
    struct Weights {
      uint32_t of[Tile::kBlocks16][4];
    };
    // Of two blocks of 8 rows; of one twice where there is one.
    struct Activations {
      uint32_t of[4];
    };
    const unsigned char* const shared = block.shared() + stage * Tile::kStageBytes;
    PerLane<Weights> a;
    PerLane<Activations> b;
    const int first_lane = warp.index() * kLanes;
    JANUS_UNROLL
    for (int chunk = 0; chunk < kChunks; chunk += 2) {
      JANUS_UNROLL
      for (int m = 0; m < Tile::kBlocks16; ++m) {
        LoadMatrices(
            warp, [&](int lane) -> uint32_t(&)[4] { return a[lane].of[m]; },
            [&](int lane) {
              const int first = WeightRow(warp.index(), m) + lane / 8 % 2 * 8;
              return shared + ChunkOffset(first, lane % 8, chunk + lane / 16);
            });
      }
      JANUS_UNROLL
      for (int n = 0; n < Tile::kBlocks8; n += 2) {
        constexpr int kBlocks = Tile::kBlocks8 < 2 ? 1 : 2;
        LoadMatrices(
            warp, [&](int lane) -> uint32_t(&)[4] { return b[lane].of; },
            [&](int lane) {
              const int first = 2 * Tile::kHalf + 8 * (n + lane / 16 % kBlocks);
              return shared + ChunkOffset(first, lane % 8, chunk + lane / 8 % 2);
            });
        JANUS_UNROLL
        for (int m = 0; m < Tile::kBlocks16; ++m) {
          JANUS_UNROLL
          for (int i = 0; i < kBlocks; ++i) {
            MultiplyAdd(
                warp, [&](int lane) -> float(&)[4] { return sums[first_lane + lane].of[m][n + i]; },
                [&](int lane) -> const uint32_t* { return a[lane].of[m]; },
                [&](int lane) -> const uint32_t* { return b[lane].of + 2 * i; });
          }
        }
      }
    }
  }

  // Of a warp's 16 weight rows `m`, the first in the tile: even m are of the first half.
  JANUS_DEVICE static int WeightRow(int warp, int m) {
    return m % 2 * Tile::kHalf + (warp * Tile::kPairs + m / 2) * 16;
  }
};

// fn(row, output, first, second) for the elements of the tile's two halves: `output` is the
// weight row within its half. Rows and outputs beyond the given numbers are left out.
template <class Tile, class Block, class Fn>
JANUS_DEVICE void ForEachOfHalves(Block& block, int rows, int outputs,
                                  PerThread<typename Tile::Sums, Tile::kThreads>& sums, Fn fn) {
  block.Phase([&](int thread) {
    const int lane = thread % kLanes;
    const int warp = thread / kLanes;
    typename Tile::Sums& sum = sums[thread];
    JANUS_UNROLL
    for (int n = 0; n < Tile::kBlocks8; ++n) {
      JANUS_UNROLL
      for (int pair = 0; pair < Tile::kPairs; ++pair) {
        JANUS_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int row = 8 * n + lane % 4 * 2 + i % 2;
          const int output = (warp * Tile::kPairs + pair) * 16 + lane / 4 + i / 2 * 8;
          if (row >= rows || output >= outputs) continue;
          fn(row, output, sum.of[2 * pair][n][i], sum.of[2 * pair + 1][n][i]);
        }
      }
    }
  });
}

}  // namespace janus::kernels::cuda
