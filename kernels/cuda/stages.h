#pragma once

// Parts that the matrix products of fast kernels share: stages of shared memory that copies fill
// ahead, chunks at any address, and weights in registers times rows of activations.

#include "common/dtype.h"
#include "kernels/cuda/tensor.h"

namespace janus::kernels::cuda {

// For each of `steps` steps of the inner axis, fill(warp, step, stage), which starts copies, runs
// kStages - 1 steps ahead of multiply(warp, step, stage). Stages are numbers below kStages. All of
// them are free at the begin and at the end.
template <int kStages, class Block, class Fill, class Multiply>
JANUS_DEVICE void RunStages(Block& block, int steps, Fill fill, Multiply multiply) {
  const auto next = [](int stage) { return stage + 1 == kStages ? 0 : stage + 1; };
  int filled = 0;  // the stage that is filled next
  JANUS_KEEP_LOOP
  for (int step = 0; step < kStages - 1; ++step) {
    block.template CopyingWarps<kStages - 2>([&](auto& warp) {
      if (step < steps) fill(warp, step, filled);
    });
    filled = next(filled);
  }
  int read = 0;  // the stage that is multiplied next
  JANUS_KEEP_LOOP
  for (int step = 0; step < steps; ++step) {
    // Fills the stage that the step before has read.
    block.template CopyingWarps<kStages - 2>([&](auto& warp) {
      const int ahead = step + kStages - 1;
      if (ahead < steps) fill(warp, ahead, filled);
      multiply(warp, step, read);
    });
    filled = next(filled);
    read = next(read);
  }
}

// The first `count` elements of a chunk, one by one from any address of an element, then zeros.
template <class T>
JANUS_DEVICE void MoveChunk(unsigned char* to, const T* from, int count) {
  auto* const elements = reinterpret_cast<T*>(to);
  JANUS_KEEP_LOOP
  for (int i = 0; i < kCopyBytes / static_cast<int>(sizeof(T)); ++i) {
    elements[i] = i < count ? from[i] : T{0};
  }
}

// The same, asynchronously if the source lies in chunks. A chunk then has all its elements or none.
template <class Block>
JANUS_DEVICE void BringChunk(Block& block, unsigned char* to, const uint16_t* from, int count,
                             bool in_chunks) {
  if (in_chunks) {
    block.CopyAsync(to, from, count != 0);
    return;
  }
  MoveChunk(to, from, count);
}

// A chunk of 8 floats from any address of one, rounded; zeros unless `read`.
JANUS_DEVICE inline void MoveRounded(unsigned char* to, const float* from, bool read) {
  struct alignas(kCopyBytes) Rounded {
    uint32_t of[kChunk / 2];
  };
  Rounded rounded = {};
  if (read) {
    JANUS_UNROLL
    for (int i = 0; i < kChunk; ++i) {
      rounded.of[i / 2] |= uint32_t{ToBFloat16(from[i])} << (16 * (i % 2));
    }
  }
  *reinterpret_cast<Rounded*>(to) = rounded;
}

// Two chunks of the inner axis, of kBlocks16 blocks of weights that a(lane)[m] has, times those of
// kBlocks8 blocks of 8 rows of activations: sums(lane)[m][n] += ... Chunk `half` of row `row` of
// block n lies at chunk_at(n, row, half).
template <int kBlocks16, int kBlocks8, class Warp, class Sums, class A, class ChunkAt>
JANUS_DEVICE void MultiplyRows(Warp& warp, Sums sums, A a, ChunkAt chunk_at) {
  // Of two blocks of 8 rows; of one twice where there is one.
  struct Activations {
    uint32_t of[4];
  };
  constexpr int kAtOnce = kBlocks8 < 2 ? 1 : 2;
  PerLane<Activations> b;
  JANUS_UNROLL
  for (int n = 0; n < kBlocks8; n += 2) {
    LoadMatrices(
        warp, [&](int lane) -> uint32_t(&)[4] { return b[lane].of; },
        [&](int lane) { return chunk_at(n + lane / 16 % kAtOnce, lane % 8, lane / 8 % 2); });
    JANUS_UNROLL
    for (int m = 0; m < kBlocks16; ++m) {
      JANUS_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        MultiplyAdd(
            warp, [&](int lane) -> float(&)[4] { return sums(lane)[m][n + i]; },
            [&](int lane) -> const uint32_t* { return a(lane)[m]; },
            [&](int lane) -> const uint32_t* { return b[lane].of + 2 * i; });
      }
    }
  }
}

}  // namespace janus::kernels::cuda
