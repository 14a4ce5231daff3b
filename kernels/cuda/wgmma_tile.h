#pragma once

// The matrix product of the experts on sm_90a: a block computes weights x rows^T with wgmma. The
// weights are its 64-row operand, and each warpgroup has other weight rows. Rows of activations, in
// bfloat16, are its columns and serve all warpgroups. Here weights are in bfloat16 too;
// wgmma_packed.h has weights in 8 and 4 bits.
//
// Both operands pass through shared memory in steps of 64 elements of the inner axis, by
// asynchronous copies that run kAhead steps ahead. While a step is multiplied the warps start the
// copies of another. These fill the stage that the step before last has read, because products of
// the last step may still read theirs.
//
// An element's sum starts at 0 and takes 16 elements of the inner axis after 16, from the first to
// the last; those beyond the end are zeros. The tile, the rows beside it and how far copies run
// ahead do not change it. This makes the product batch-invariant if wgmma adds an element's terms
// alike for every number of columns. The PTX ISA does not guarantee that; only a GPU can show it.

#include "kernels/cuda/plan.h"
#include "kernels/cuda/weight_formats.h"
#include "kernels/cuda/wgmma.h"

namespace janus::kernels::cuda {

// What does not depend on the rows of a tile. Blocks of one warpgroup share a multiprocessor; a
// block of two has one for itself.
template <int kWarpgroups, int kWeightBits = 16>
struct WgmmaBlock {
  static_assert(kWarpgroups == 1 || kWarpgroups == 2);
  using Format = WeightFormat<kWeightBits>;
  static constexpr int kBits = kWeightBits;
  static constexpr int kGroups = kWarpgroups;
  static constexpr int kThreads = kGroups * kGroupThreads;
  static constexpr int kHalf = 32 * kGroups;  // weight rows of a half
  // Registers set this limit: weights in 4 and 8 bits pass through some, and scaled sums exist
  // twice, of a block of scales and of all.
  static constexpr int kMostRows = kGroups == 1 ? 64 : kBits == 16 ? 256 : kBits == 8 ? 128 : 192;
  static constexpr int kBlocksAtOnce = kGroups == 1 ? 2 : 1;
  // Of shared memory: the stages, then where each row of activations begins, then what else a
  // kernel keeps. Narrow, 256 bytes for scales of fp8: seven stages of 16 KiB are 112 without.
  static constexpr int kStagesBytes = kGroups == 1 ? (112 << 10) + 256 : 221 << 10;
  static constexpr int kRowPointersBytes = kMostRows * static_cast<int>(sizeof(const uint16_t*));
  static constexpr int kRestAt = kStagesBytes + kRowPointersBytes;
};

// A tile of kRows rows of activations by 64 rows of weights for each warpgroup. The weights are two
// halves, of two matrices (gate and up) or of one. Of a warp's 16 rows of wgmma's operand the first
// 8 belong to the first half, the others to the same rows of the second. So a thread has both
// halves of its outputs.
template <int kWarpgroups, int kActivations, int kWeightBits = 16>
struct WgmmaTile : WgmmaBlock<kWarpgroups, kWeightBits> {
  using Block = WgmmaBlock<kWarpgroups, kWeightBits>;
  using Format = typename Block::Format;
  static constexpr int kRows = kActivations;
  static constexpr int kStep = kSwizzledRow / 2;  // of the inner axis
  static constexpr int kWeightRows = 2 * Block::kHalf;
  // Steps of a stage. Two where a step has few bytes, because the work for each stage would take
  // long beside it. With 64 rows of fp8 so few stages of two steps would fit that copies would be
  // waited for. With 64 rows of mxfp4 instructions are the limit sooner, and two steps save some.
  static constexpr int kSteps =
      kWarpgroups == 1 && (kWeightBits == 4 || (kWeightBits == 8 && kRows < 64)) ? 2 : 1;
  static constexpr int kWeightRowBytes = kSteps * kStep * kWeightBits / 8;  // in a stage
  // In a stage rows of activations follow those of weights, for each step. Scales, of mxfp4 of each
  // weight row, of fp8 of either half, lie behind all stages.
  static constexpr int kRowsAt = kWeightRows * kWeightRowBytes;
  static constexpr int kStepRowsBytes = kRows * kSwizzledRow;
  static constexpr int kStageBytes = kRowsAt + kSteps * kStepRowsBytes;
  static constexpr int kScaleStageBytes =
      Format::kIsScaled ? 2 * kWordBytes : kWeightRows * Format::kScaleBytes;
  static constexpr int kMostStages = 16;
  static constexpr int kFit = Block::kStagesBytes / (kStageBytes + kScaleStageBytes);
  static constexpr int kStages = kFit < kMostStages ? kFit : kMostStages;
  static constexpr int kScalesAt = kStages * kStageBytes;
  // How many stages the second of two warpgroups is behind the first.
  static constexpr int kLag = Format::kIsScaled && kWarpgroups == 2 ? 1 : 0;
  static constexpr int kAhead = kStages - 2 - kLag;
  static_assert(kRows <= Block::kMostRows && kAhead >= 2 && kStageBytes % kSharedAlignment == 0 &&
                kRowsAt % kSharedAlignment == 0);

  // A thread's part of the result.
  struct Sums {
    float of[kRows / 2];
  };
  // The row of its half that row `row` of the block's weights in a stage is; which half.
  JANUS_DEVICE static constexpr int RowOfHalf(int row) { return row / 16 * 8 + row % 8; }
  JANUS_DEVICE static constexpr int HalfOf(int row) { return row / 8 % 2; }
};

// What products do with rows of activations, whatever their weights. x(row) is where one begins;
// rows may lie at any address of an element: those that copies cannot read are moved one by one.
template <class Tile>
struct WgmmaRows {
  static constexpr int kChunks = kSwizzledRow / kCopyBytes;
  // A pass of all threads brings the chunks of so many rows.
  static constexpr int kPass = Tile::kThreads / kChunks;
  // From pass to pass a thread's chunk is kPass rows further on, at the same place in its group of
  // 8 rows. So one address serves all passes, and the loop checks nothing that all chunks share: a
  // warp has far more copies to start than products.
  static constexpr int kPassBytes = kPass * kSwizzledRow;
  static_assert(kPass % 16 == 0 && Tile::kWeightRows % kPass == 0);

  JANUS_DEVICE static bool IsAligned(const void* address, int bytes = kCopyBytes) {
    return reinterpret_cast<uintptr_t>(address) % static_cast<unsigned>(bytes) == 0;
  }

  template <class Block>
  JANUS_DEVICE static const uint16_t** Of(Block& block) {
    return reinterpret_cast<const uint16_t**>(block.shared() + Tile::kStagesBytes);
  }
  // In a phase.
  template <class Block, class X>
  JANUS_DEVICE static void Find(Block& block, int thread, int rows, X x) {
    for (int row = thread; row < Tile::kRows; row += Tile::kThreads) {
      Of(block)[row] = x(row < rows ? row : 0);
    }
  }
  // In a later one: whether asynchronous copies can read what a thread brings.
  template <class Block>
  JANUS_DEVICE static bool CanCopy(Block& block, int thread) {
    bool can = true;
    for (int row = thread / kChunks; row < Tile::kRows; row += kPass) {
      can = can && IsAligned(Of(block)[row]);
    }
    return can;
  }

  template <class Block>
  JANUS_DEVICE static void Fill(Block& block, unsigned char* to, int thread, int step, int rows,
                                int64_t inner, bool in_chunks) {
    constexpr int kPasses = (Tile::kRows + kPass - 1) / kPass;
    static_assert(kPasses == 1 || Tile::kRows % kPass == 0);
    const int first_row = thread / kChunks;
    if (Tile::kRows < kPass && first_row >= Tile::kRows) return;
    const int chunk = thread % kChunks;
    const int64_t k = int64_t{step} * Tile::kStep + chunk * kChunk;
    const int left = k < inner ? rows - first_row : 0;
    unsigned char* const first_to = to + SwizzledOffset(first_row, chunk);
    const uint16_t* const* const first_from = Of(block) + first_row;
    if (in_chunks) {
      // All of them before the first copy, which the compiler would not load beyond.
      const uint16_t* from[kPasses];
      JANUS_UNROLL
      for (int i = 0; i < kPasses; ++i) from[i] = first_from[i * kPass] + k;
      JANUS_UNROLL
      for (int i = 0; i < kPasses; ++i) {
        block.CopyAsync(first_to + i * kPassBytes, from[i], i * kPass < left);
      }
      return;
    }
    JANUS_KEEP_LOOP
    for (int i = 0; i < kPasses; ++i) {
      MoveChunk(first_to + i * kPassBytes, first_from[i * kPass] + k,
                i * kPass < left ? kChunk : 0);
    }
  }
};

// The tile's product over an inner axis of `inner` elements: whole chunks of both operands. x(row)
// is where a row of activations begins; `rows` of them are there. Rows and weights may lie at any
// address of an element: those that copies cannot read are moved one by one, with the same bits.
// Begins and ends with the shared memory free.
template <class Tile>
class WgmmaProduct {
  using Rows = WgmmaRows<Tile>;
  using Half = WeightHalf<uint16_t>;
  using Halves = Half[2];
  using Sums = PerThread<typename Tile::Sums, Tile::kThreads>;

 public:
  template <class Block, class X>
  JANUS_DEVICE static void Run(Block& block, const Halves& w, int rows, int64_t inner, X x,
                               Sums& sums) {
    const int steps = static_cast<int>((inner + Tile::kStep - 1) / Tile::kStep);
    block.Phase([&](int thread) { Rows::Find(block, thread, rows, x); });
    // Whether asynchronous copies can read what a thread brings.
    PerThread<CanCopy, Tile::kThreads> can_copy;
    block.Phase([&](int thread) {
      can_copy[thread] = {Rows::IsAligned(HalfOfThread(w, thread).first),
                          Rows::CanCopy(block, thread)};
    });
    const auto fill = [&](auto& group, int step, int stage) {
      if (step >= steps) return;
      unsigned char* const to = block.shared() + stage * Tile::kStageBytes;
      group.Threads([&](int thread) {
        const CanCopy& can = can_copy[thread];
        FillWeights(block, to, thread, step, w, inner, can.weights);
        Rows::Fill(block, to + Tile::kRowsAt, thread, step, rows, inner, can.rows);
      });
    };
    JANUS_KEEP_LOOP
    for (int step = 0; step < Tile::kAhead; ++step) {
      block.template CopyingGroups<Tile::kAhead - 1>([&](auto& group) { fill(group, step, step); });
    }
    const auto next = [](int stage) { return stage + 1 == Tile::kStages ? 0 : stage + 1; };
    int filled = Tile::kAhead;  // the stage that is filled next
    int read = 0;               // the stage that is multiplied next
    JANUS_KEEP_LOOP
    for (int step = 0; step < steps; ++step) {
      block.template CopyingGroups<Tile::kAhead - 1>([&](auto& group) {
        Multiply(block, group, step, read, sums);
        fill(group, step + Tile::kAhead, filled);
        Wait<1>(group);
      });
      filled = next(filled);
      read = next(read);
    }
    block.template CopyingGroups<0>([&](auto& group) { Wait<0>(group); });
  }

 private:
  static constexpr int kChunks = Rows::kChunks;
  static constexpr int kPass = Rows::kPass;
  static constexpr int kPassBytes = Rows::kPassBytes;

  // A thread's rows of all passes are of one half. Chosen word by word: an array that is indexed by
  // a variable would lie in memory.
  JANUS_DEVICE static Half HalfOfThread(const Halves& w, int thread) {
    const bool is_second = Tile::HalfOf(thread / kChunks) != 0;
    return {is_second ? w[1].first : w[0].first, is_second ? w[1].rows : w[0].rows, nullptr};
  }

  struct CanCopy {
    bool weights = true;
    bool rows = true;
  };

  // The address of what is not read is whatever comes out; nothing touches it.
  template <class Block>
  JANUS_DEVICE static void FillWeights(Block& block, unsigned char* to, int thread, int step,
                                       const Halves& w, int64_t inner, bool in_chunks) {
    constexpr int kPasses = 2 * Tile::kHalf / kPass;
    const Half half = HalfOfThread(w, thread);
    const int first_row = thread / kChunks;
    const int chunk = thread % kChunks;
    const int64_t k = int64_t{step} * Tile::kStep + chunk * kChunk;
    const int left = k < inner ? half.rows - Tile::RowOfHalf(first_row) : 0;
    const uint16_t* from = half.first + Tile::RowOfHalf(first_row) * inner + k;
    unsigned char* const first_to = to + SwizzledOffset(first_row, chunk);
    if (in_chunks) {
      JANUS_UNROLL
      for (int i = 0; i < kPasses; ++i) {
        block.CopyAsync(first_to + i * kPassBytes, from, i * kPass / 2 < left);
        from += kPass / 2 * inner;
      }
      return;
    }
    JANUS_KEEP_LOOP
    for (int i = 0; i < kPasses; ++i) {
      MoveChunk(first_to + i * kPassBytes, from, i * kPass / 2 < left ? kChunk : 0);
      from += kPass / 2 * inner;
    }
  }

  // Starts the product over one stage.
  template <class Block, class Group>
  JANUS_DEVICE static void Multiply(Block& block, Group& group, int step, int stage, Sums& sums) {
    const unsigned char* const shared = block.shared() + stage * Tile::kStageBytes;
    const Matrix a(group, shared + group.index() * (kWgmmaOutputs * kSwizzledRow));
    const Matrix b(group, shared + Tile::kRowsAt);
    Fence(group);
    JANUS_UNROLL
    for (int i = 0; i < Tile::kStep / kWgmmaInner; ++i) {
      MultiplyAsync<Tile::kRows>(
          group, [&](int thread) -> float(&)[Tile::kRows / 2] { return sums[thread].of; }, a.At(i),
          b.At(i), step > 0 || i > 0);
    }
    Commit(group);
  }
};

// fn(row, output, first, second) for the elements of the tile's two halves: `output` is the weight
// row within its half. Rows and outputs beyond the given numbers are left out.
template <class Tile, class Block, class Fn>
JANUS_DEVICE void ForEachOfWgmma(Block& block, int rows, int outputs,
                                 PerThread<typename Tile::Sums, Tile::kThreads>& sums, Fn fn) {
  block.Phase([&](int thread) {
    const int lane = thread % kLanes;
    const int output = thread / kLanes * 8 + lane / 4;
    if (output >= outputs) return;
    typename Tile::Sums& sum = sums[thread];
    JANUS_UNROLL
    for (int n = 0; n < Tile::kRows / 8; ++n) {
      JANUS_UNROLL
      for (int i = 0; i < 2; ++i) {
        const int row = 8 * n + lane % 4 * 2 + i;
        if (row < rows) fn(row, output, sum.of[4 * n + i], sum.of[4 * n + 2 + i]);
      }
    }
  });
}

}  // namespace janus::kernels::cuda
