#pragma once

// Projections, of a row's whole width and of each head alone, in their fast form. Up to 64 rows the
// read of the weights is the limit. More rows are more tiles, which read the weights from the L2
// cache.
// Specification: ../reference/{linear,head_linear}.cc, and split_tile.h for the order of a sum.

#include "kernels/cuda/products.h"
#include "kernels/cuda/split_tile.h"

namespace janus::kernels::cuda {

// Rows of a tile, of so many in all.
constexpr int FastLinearRows(int64_t rows) {
  return rows <= 8 ? 8 : rows <= 16 ? 16 : rows <= 32 ? 32 : kMostSplitRows;
}

// What these kernels share. Tiles of the same weights are neighbours, so that their blocks run at
// the same time.
template <int kWeights, bool kTransposed>
struct FastProjection {
  static constexpr int kOutputs = kWeights;
  static constexpr int kThreads = kSplits * kLanes;
  static constexpr int kBlocksAtOnce = 2;
  static constexpr int64_t kAskedSharedBytes = SplitTile<kOutputs, 8, 2>::kSharedBytes;

  // fn(tile): the SplitTile for so many rows.
  template <class Fn>
  JANUS_DEVICE static void WithTile(int64_t rows, Fn fn) {
    switch (FastLinearRows(rows)) {
      case 8:
        return fn(SplitTile<kOutputs, 8, 2, kTransposed>{});
      case 16:
        return fn(SplitTile<kOutputs, 16, 1, kTransposed>{});
      case 32:
        return fn(SplitTile<kOutputs, 32, 1, kTransposed>{});
      default:
        if constexpr (kOutputs > 16) fn(SplitTile<kOutputs, kMostSplitRows, 1, kTransposed>{});
    }
  }

  // An operand of `rows` rows, `stride` elements apart.
  template <class T>
  JANUS_DEVICE static auto Rows(const T* first, int64_t stride, int rows) {
    constexpr int64_t kElements = kCopyBytes / sizeof(T);
    const bool in_chunks =
        reinterpret_cast<uintptr_t>(first) % kCopyBytes == 0 && stride % kElements == 0;
    return SplitOperand{[first, stride](int64_t row) { return first + row * stride; }, rows,
                        in_chunks};
  }
};

// Outputs of a block. Matrices of few outputs have small blocks, so that these still fill the
// device. With many rows blocks are large, because each reads the rows for itself. No bit depends
// on it.
constexpr int FastLinearOutputs(const LinearArgs& a) {
  if (a.outputs >= (a.rows > 32 ? 6144 : 8192)) return 64;
  return a.outputs >= 4096 || a.rows > 32 ? 32 : 16;
}

template <int kOutputs>
struct FastLinearKernel : FastProjection<kOutputs, false> {
  LinearArgs a;

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    this->WithTile(a.rows, [&](auto tile) {
      using Tile = decltype(tile);
      const int64_t down = (a.rows + Tile::kRows - 1) / Tile::kRows;
      const int64_t t0 = block.index() % down * Tile::kRows;
      const int64_t n0 = block.index() / down * kOutputs;
      const int64_t x_stride = a.x_stride != 0 ? a.x_stride : a.inputs;
      const int64_t y_stride = a.y_stride != 0 ? a.y_stride : a.outputs;
      const auto* const w = static_cast<const uint16_t*>(a.weight) + n0 * a.inputs;
      const auto* const x = static_cast<const uint16_t*>(a.x) + t0 * x_stride;
      SplitProduct<Tile>::Run(block, this->Rows(w, a.inputs, PartOfTile(a.outputs, n0, kOutputs)),
                              this->Rows(x, x_stride, PartOfTile(a.rows, t0, Tile::kRows)),
                              a.inputs, [&](int r, int n, float sum) {
                                if (a.bias != nullptr) sum += Load(a.bias, a.bias_dtype, n0 + n);
                                float& y = a.y[(t0 + r) * y_stride + n0 + n];
                                y = a.accumulate ? y + sum : sum;
                              });
    });
  }
};

template <bool kIsTransposed>
struct FastHeadLinearKernel : FastProjection<64, kIsTransposed> {
  HeadLinearArgs a;

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    this->WithTile(a.rows, [&](auto tile) {
      using Tile = decltype(tile);
      constexpr int kOutputs = Tile::kOutputs;
      const int64_t down = (a.rows + Tile::kRows - 1) / Tile::kRows;
      const int64_t across = (a.outputs + kOutputs - 1) / kOutputs;
      const int64_t t0 = block.index() % down * Tile::kRows;
      const int64_t n0 = block.index() / down % across * kOutputs;
      const int64_t h = block.index() / down / across;
      const int64_t w_stride = kIsTransposed ? a.outputs : a.inputs;
      const auto* const w = static_cast<const uint16_t*>(a.weight) + h * a.weight_head_stride +
                            (kIsTransposed ? n0 : n0 * w_stride);
      const float* const x = a.x + t0 * a.x_row_stride + h * a.x_head_stride;
      SplitProduct<Tile>::Run(block, this->Rows(w, w_stride, PartOfTile(a.outputs, n0, kOutputs)),
                              this->Rows(x, a.x_row_stride, PartOfTile(a.rows, t0, Tile::kRows)),
                              a.inputs, [&](int r, int n, float sum) {
                                const int64_t at =
                                    (t0 + r) * a.y_row_stride + h * a.y_head_stride + n0 + n;
                                Store(a.y, a.y_dtype, at, sum);
                              });
    });
  }
};

// `plan` is the plain form's plan, and bytes and operations stay as they are there. Each of `heads`
// has `outputs`.
template <class Kernel>
Plan PlanFast(Plan plan, int64_t heads, int64_t outputs, int64_t rows) {
  plan.blocks = heads * CeilDiv(outputs, Kernel::kOutputs) * CeilDiv(rows, FastLinearRows(rows));
  plan.threads = Kernel::kThreads;
  plan.shared_bytes = Kernel::kAskedSharedBytes;
  return plan;
}
template <int kOutputs>
Plan PlanFastLinear(const LinearArgs& a) {
  return PlanFast<FastLinearKernel<kOutputs>>(PlanLinear(a), 1, a.outputs, a.rows);
}
template <bool kIsTransposed>
Plan PlanFastHeadLinear(const HeadLinearArgs& a) {
  return PlanFast<FastHeadLinearKernel<kIsTransposed>>(PlanHeadLinear(a), a.heads, a.outputs,
                                                       a.rows);
}

}  // namespace janus::kernels::cuda
