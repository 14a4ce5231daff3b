#pragma once

// The one matrix product of the plain kernels: a block computes rows x outputs of x.w^T, with both
// operands going through shared memory in steps of the inner axis. Every sum runs over the inner
// axis in order, in fp32 with one rounding per step, whatever the tile and the number of rows. This
// makes the product batch-invariant.
//
// Shared memory is the limit, far from the device's limits of memory and arithmetic. Faster forms
// are compared with it within a tolerance, and with themselves, bit for bit, from batch to batch.

#include <cmath>

#include "kernels/cuda/element.h"
#include "kernels/cuda/plan.h"

namespace janus::kernels::cuda {

struct Tile {
  static constexpr int kRows = 16;
  static constexpr int kOutputs = 64;
  static constexpr int kStep = 32;  // of the inner axis
  static constexpr int kThreads = 128;
  static constexpr int kRowsPerThread = kRows * kOutputs / kThreads;
  static constexpr int kPitch = kStep + 1;  // so that a warp's outputs lie in different banks
  static constexpr int64_t kSharedBytes = int64_t{4} * (kRows * kStep + kOutputs * kPitch);

  // A thread's sums: of output (thread % kOutputs), rows from (thread / kOutputs) * kRowsPerThread.
  struct Sums {
    float of[kRowsPerThread] = {};
  };
};

// sums += x.w^T over the inner axis. x(row, k) for row in 0..rows-1, w(output, k) for output in
// 0..outputs-1; rows and outputs are those of the tile, at most its size. Ends with a barrier; then
// the shared memory is free.
template <class Block, class X, class W>
JANUS_DEVICE void MultiplyTile(Block& block, int rows, int outputs, int64_t inner, X x, W w,
                               PerThread<Tile::Sums, Tile::kThreads>& sums) {
  auto* const x_rk = reinterpret_cast<float*>(block.shared());
  float* const w_nk = x_rk + Tile::kRows * Tile::kStep;
  for (int64_t first = 0; first < inner; first += Tile::kStep) {
    const int steps = inner - first < Tile::kStep ? static_cast<int>(inner - first) : Tile::kStep;
    // Neighbouring threads read neighbours of a row.
    block.Phase([&](int thread) {
      const int k = thread % Tile::kStep;
      if (k >= steps) return;
      for (int r = thread / Tile::kStep; r < rows; r += Tile::kThreads / Tile::kStep) {
        x_rk[r * Tile::kStep + k] = x(r, first + k);
      }
      for (int n = thread / Tile::kStep; n < outputs; n += Tile::kThreads / Tile::kStep) {
        w_nk[n * Tile::kPitch + k] = w(n, first + k);
      }
    });
    block.Phase([&](int thread) {
      const int n = thread % Tile::kOutputs;
      const int r0 = thread / Tile::kOutputs * Tile::kRowsPerThread;
      if (n >= outputs) return;
      Tile::Sums& sum = sums[thread];
      for (int k = 0; k < steps; ++k) {
        const float weight = w_nk[n * Tile::kPitch + k];
        JANUS_UNROLL
        for (int r = 0; r < Tile::kRowsPerThread; ++r) {
          if (r0 + r >= rows) continue;
          sum.of[r] = fmaf(x_rk[(r0 + r) * Tile::kStep + k], weight, sum.of[r]);
        }
      }
    });
  }
}

// out(thread, row, output, i) for every element of the tile: the sum is the thread's of[i].
template <class Block, class Out>
JANUS_DEVICE void ForEachOfTile(Block& block, int rows, int outputs, Out out) {
  block.Phase([&](int thread) {
    const int n = thread % Tile::kOutputs;
    const int r0 = thread / Tile::kOutputs * Tile::kRowsPerThread;
    if (n >= outputs) return;
    JANUS_UNROLL
    for (int r = 0; r < Tile::kRowsPerThread; ++r) {
      if (r0 + r < rows) out(thread, r0 + r, n, r);
    }
  });
}

// The part of `count` that the tile from `first` on holds.
JANUS_DEVICE inline int PartOfTile(int64_t count, int64_t first, int size) {
  return count - first < size ? static_cast<int>(count - first) : size;
}

}  // namespace janus::kernels::cuda
