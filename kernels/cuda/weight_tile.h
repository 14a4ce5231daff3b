#pragma once

// The matrix product of fast kernels for few rows: a block computes weights x rows^T with the
// tensor cores. The weights are their 16-row operand, and a row of activations, in bfloat16, is one
// of 8 columns. So one row pads to 8 and not to 16 or 64, and each weight is multiplied as it is
// read. Weights have 16, 8 or 4 bits (weight_formats.h).
//
// Up to 64 rows the read of the weights is the limit. Both operands pass through shared memory in
// steps of the inner axis, by asynchronous copies that run several steps ahead.
//
// An element's sum starts at 0 and takes 16 elements of the inner axis after 16, from the first to
// the last; those beyond the end are zeros. The tile, the rows beside it and how far copies run
// ahead do not change it. In fp8 each block of scales has such a sum, which is added, times its
// scale, to those before it. This makes the product batch-invariant.

#include "kernels/cuda/plan.h"
#include "kernels/cuda/weight_formats.h"

namespace janus::kernels::cuda {

inline constexpr int kMostTileRows = 64;  // of activations

// A tile of kRows rows of activations by 64 * kWidth rows of weights. The latter are two halves: of
// two matrices (gate and up), or of one. A 16-row operand has 8 rows of either, so that a lane has
// both halves of its outputs.
template <int kWeightBits, int kActivations, int kTileWidth>
struct WeightTile {
  using Format = WeightFormat<kWeightBits>;
  static constexpr int kRows = kActivations;
  static constexpr int kWidth = kTileWidth;
  static constexpr int kThreads = Format::kWarps * kLanes;
  static constexpr int kHalf = 32 * kWidth;    // weight rows of a half
  static constexpr int kStep = Format::kStep;  // of the inner axis
  static constexpr int kRowBytes = 2 * kStep;  // of a row of activations in a stage
  static constexpr int kWeightRowBytes = Format::kWeightRowBytes;
  static constexpr int kWeightChunks = kWeightRowBytes / kCopyBytes;
  static constexpr int kRowChunks = kRowBytes / kCopyBytes;
  // In a stage rows of activations follow those of weights, then the latter's scales.
  static constexpr int kRowsAt = 2 * kHalf * kWeightRowBytes;
  static constexpr int kScalesAt = kRowsAt + kRows * kRowBytes;
  static constexpr int kStageBytes = kScalesAt + 2 * kHalf * Format::kScaleBytes;
  // Of shared memory: the stages, then where each row of activations begins.
  static constexpr int kStagesBytes = 96 << 10;
  static constexpr int kStages = kStagesBytes / kStageBytes;
  static constexpr int64_t kSharedBytes = kStagesBytes + kMostTileRows * sizeof(const uint16_t*);
  static constexpr int kBlocks16 = kHalf / 8 / Format::kWarps;  // of 8 + 8 weight rows, of a warp
  static constexpr int kBlocks8 = kRows / 8;                    // of 8 rows of activations

  // A lane's part of the result: [2] and [3] are of the second half.
  struct Sums {
    float of[kBlocks16][kBlocks8][4] = {};
  };
  // A lane's part of two chunks of the warp's weight rows.
  struct Weights {
    uint32_t of[kBlocks16][4];
  };
  // Of a warp's rows of a half in block m, the first.
  JANUS_DEVICE static constexpr int FirstRow(int warp, int m) { return (warp * kBlocks16 + m) * 8; }
  // Chunks `chunk` and the next: registers 0 and 1 are of the former, of the first half and of the
  // second.
  template <class Warp>
  JANUS_DEVICE static void LoadWeights(Warp& warp, const unsigned char* stage, int chunk,
                                       PerLane<Weights>& to) {
    JANUS_UNROLL
    for (int m = 0; m < kBlocks16; ++m) {
      LoadMatrices(
          warp, [&](int lane) -> uint32_t(&)[4] { return to[lane].of[m]; },
          [&](int lane) {
            const int first = lane / 8 % 2 * kHalf + FirstRow(warp.index(), m);
            return stage + ChunkOffset<kWeightRowBytes>(first, lane % 8, chunk + lane / 16);
          });
    }
  }
};

// The tile's product over an inner axis of `inner` elements: whole chunks of both operands. x(row)
// is where a row of activations begins; `rows` of them are there. Rows and weights may lie at any
// address of an element: those that copies cannot read are moved one by one, with the same bits.
// Begins and ends with the shared memory free.
template <class Tile>
class WeightProduct {
  using Format = typename Tile::Format;
  using Element = typename Format::Element;
  using Halves = WeightHalf<Element>[2];

 public:
  template <class Block, class X>
  JANUS_DEVICE static void Run(Block& block, const Halves& w, int rows, int64_t inner, X x,
                               PerThread<typename Tile::Sums, Tile::kThreads>& sums) {
    const int steps = static_cast<int>((inner + Tile::kStep - 1) / Tile::kStep);
    block.Phase([&](int thread) {
      if (thread < Tile::kRows) RowsOf(block)[thread] = x(thread < rows ? thread : 0);
    });
    // Whether asynchronous copies can read what a thread brings.
    PerThread<CanCopy, Tile::kThreads> can_copy;
    PerThread<typename Format::Scales, Tile::kThreads> scales;  // of the next step
    block.Phase([&](int thread) {
      CanCopy& can = can_copy[thread];
      can.weights = IsAligned(w[0].first) && IsAligned(w[1].first);
      for (int row = thread / Tile::kRowChunks; row < Tile::kRows; row += 8) {
        can.rows = can.rows && IsAligned(RowsOf(block)[row]);
      }
      if constexpr (Format::kIsScaled) scales[thread] = Format::ScalesOf(w, 0);
      if constexpr (Format::kScaleBytes != 0) {
        can.scales = inner % Tile::kStep == 0 && IsAligned<Format::kScaleBytes>(w[0].scales) &&
                     IsAligned<Format::kScaleBytes>(w[1].scales);
      }
    });
    RunStages<Tile::kStages>(
        block, steps,
        [&](auto& warp, int step, int stage) {
          Fill(block, warp, step, stage, w, rows, inner, can_copy);
        },
        [&](auto& warp, int step, int stage) {
          Multiply(block, warp, step, stage, w, inner, scales, sums);
        });
  }

 private:
  // A pass of all threads brings a chunk of each of so many weight rows, and of 8 rows.
  static constexpr int kPass = Tile::kThreads / Tile::kWeightChunks;
  static_assert(Tile::kStages >= 3 && Tile::kThreads == 8 * Tile::kRowChunks &&
                Tile::kHalf % kPass == 0 && Tile::kRows <= kMostTileRows &&
                kMostTileRows <= Tile::kThreads);

  template <class Block>
  JANUS_DEVICE static const uint16_t** RowsOf(Block& block) {
    return reinterpret_cast<const uint16_t**>(block.shared() + Tile::kStagesBytes);
  }

  template <int kBytes = kCopyBytes>
  JANUS_DEVICE static bool IsAligned(const void* address) {
    return reinterpret_cast<uintptr_t>(address) % kBytes == 0;
  }

  struct CanCopy {
    bool weights = true;
    bool rows = true;
    bool scales = true;
  };

  // A chunk of a stage, zeros unless `read`: asynchronously, or element by element from any
  // address.
  template <bool kAsync, class Block, class T>
  JANUS_DEVICE static void Bring(Block& block, unsigned char* to, const T* from, bool read) {
    if constexpr (kAsync) {
      block.CopyAsync(to, from, read);
    } else {
      MoveChunk(to, from, read ? kCopyBytes / static_cast<int>(sizeof(T)) : 0);
    }
  }

  // A thread brings its chunk of one row in every pass.
  template <bool kAsync, class Block>
  JANUS_DEVICE static void FillWeights(Block& block, unsigned char* stage, int thread, int step,
                                       const Halves& w, int64_t inner) {
    const int first_row = thread / Tile::kWeightChunks;
    const int chunk = thread % Tile::kWeightChunks;
    // In elements.
    const int64_t row_length = inner / Format::kWeights;
    const int64_t k = int64_t{step} * (Tile::kStep / Format::kWeights) +
                      chunk * (kCopyBytes / static_cast<int>(sizeof(Element)));
    JANUS_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Element* from = w[half].first + first_row * row_length + k;
      JANUS_UNROLL
      for (int row = 0; row < Tile::kHalf; row += kPass) {
        Bring<kAsync>(
            block,
            stage + ChunkOffset<Tile::kWeightRowBytes>(half * Tile::kHalf + row, first_row, chunk),
            from, k < row_length && row + first_row < w[half].rows);
        from += kPass * row_length;
      }
    }
  }

  // A thread brings the scales of one row in every pass.
  template <bool kAsync, class Block>
  JANUS_DEVICE static void FillScales(Block& block, unsigned char* stage, int thread, int step,
                                      const Halves& w, int64_t inner) {
    const int64_t row_length = inner / kMxBlock;
    const int64_t at = int64_t{step} * Format::kScaleBytes;
    const int64_t left = row_length - at;
    JANUS_UNROLL
    for (int first = 0; first < 2 * Tile::kHalf; first += Tile::kThreads) {
      const int row_of_both = first + thread;
      if (row_of_both >= 2 * Tile::kHalf) break;
      const bool is_second = row_of_both >= Tile::kHalf;
      const int row = row_of_both % Tile::kHalf;
      const int rows = is_second ? w[1].rows : w[0].rows;
      const void* const scales = is_second ? w[1].scales : w[0].scales;
      const auto* const from = static_cast<const uint8_t*>(scales) + row * row_length + at;
      unsigned char* const to = stage + Tile::kScalesAt + row_of_both * Format::kScaleBytes;
      if constexpr (kAsync) {
        block.CopyWordAsync(to, from, row < rows);
      } else {
        JANUS_KEEP_LOOP
        for (int i = 0; i < Format::kScaleBytes; ++i) {
          to[i] = row < rows && i < left ? from[i] : 0;
        }
      }
    }
  }

  template <bool kAsync, class Block>
  JANUS_DEVICE static void FillRows(Block& block, unsigned char* stage, int thread, int step,
                                    int rows, int64_t inner) {
    const int row8 = thread / Tile::kRowChunks;
    const int chunk = thread % Tile::kRowChunks;
    const int64_t k = int64_t{step} * Tile::kStep + chunk * kChunk;
    JANUS_UNROLL
    for (int row = 0; row < Tile::kRows; row += 8) {
      Bring<kAsync>(block, stage + Tile::kRowsAt + Format::RowOffset(row, row8, chunk),
                    RowsOf(block)[row + row8] + k, k < inner && row + row8 < rows);
    }
  }

  // Brings step `step` of the inner axis into a stage: neighbouring threads bring the chunks of a
  // row. In few instructions a copy, since a warp is almost alone on its scheduler: so the
  // address of what is not read is whatever comes out; nothing touches it.
  template <class Block, class Warp>
  JANUS_DEVICE static void Fill(Block& block, Warp& warp, int step, int stage, const Halves& w,
                                int rows, int64_t inner,
                                PerThread<CanCopy, Tile::kThreads>& can_copy) {
    unsigned char* const to = block.shared() + stage * Tile::kStageBytes;
    warp.Lanes([&](int lane) {
      const int thread = warp.index() * kLanes + lane;
      if (can_copy[thread].weights) {
        FillWeights<true>(block, to, thread, step, w, inner);
      } else {
        FillWeights<false>(block, to, thread, step, w, inner);
      }
      if constexpr (Format::kScaleBytes != 0) {
        if (can_copy[thread].scales) {
          FillScales<true>(block, to, thread, step, w, inner);
        } else {
          FillScales<false>(block, to, thread, step, w, inner);
        }
      }
      if (can_copy[thread].rows) {
        FillRows<true>(block, to, thread, step, rows, inner);
      } else {
        FillRows<false>(block, to, thread, step, rows, inner);
      }
    });
  }

  // sums += the product over one stage. The scales of the next step come from memory meanwhile.
  template <class Block, class Warp>
  JANUS_DEVICE static void Multiply(Block& block, Warp& warp, int step, int stage, const Halves& w,
                                    int64_t inner,
                                    PerThread<typename Format::Scales, Tile::kThreads>& scales,
                                    PerThread<typename Tile::Sums, Tile::kThreads>& sums) {
    const unsigned char* const shared = block.shared() + stage * Tile::kStageBytes;
    const int64_t next = int64_t{step + 1} * Tile::kStep;
    if constexpr (Format::kIsScaled) {
      PerLane<typename Format::Scales> to_come;
      warp.Lanes(
          [&](int lane) { to_come[lane] = Format::ScalesOf(w, next < inner ? step + 1 : step); });
      Format::template Multiply<Tile>(warp, shared, scales, sums);
      warp.Lanes([&](int lane) { scales[warp.index() * kLanes + lane] = to_come[lane]; });
    } else if constexpr (Format::kScaleBytes != 0) {
      // A step begins with as much as one of 16-bit weights.
      const bool is_half = next - Tile::kStep / 2 >= inner;
      Format::template Multiply<Tile>(warp, shared, is_half, sums);
    } else {
      Format::template Multiply<Tile>(warp, shared, scales, sums);
    }
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
      for (int m = 0; m < Tile::kBlocks16; ++m) {
        JANUS_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int row = 8 * n + lane % 4 * 2 + i;
          const int output = Tile::FirstRow(warp, m) + lane / 4;
          if (row >= rows || output >= outputs) continue;
          fn(row, output, sum.of[m][n][i], sum.of[m][n][i + 2]);
        }
      }
    }
  });
}

}  // namespace janus::kernels::cuda
