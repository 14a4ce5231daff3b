#pragma once

// Projections in their fast form. Bound by the read of the weights up to 64 rows; more rows are
// more tiles, which read the weights from the cache. Specification: ../reference/linear.cc, and
// split_tile.h for the order of a sum.
//
// A block has 16, 32 or 64 outputs: few where there are few outputs, so that the device is full all
// the same; many where there are many rows, since each block reads the rows for itself. No bit
// depends on it.

#include "kernels/cuda/products.h"
#include "kernels/cuda/split_tile.h"

namespace janus::kernels::cuda {

constexpr int FastLinearOutputs(const LinearArgs& a) {
  if (a.outputs >= (a.rows > 32 ? 6144 : 8192)) return 64;
  return a.outputs >= 4096 || a.rows > 32 ? 32 : 16;
}
constexpr int FastLinearRows(const LinearArgs& a) {
  return a.rows <= 8 ? 8 : a.rows <= 16 ? 16 : a.rows <= 32 ? 32 : kMostSplitRows;
}

// Block per tile of rows x outputs, rows first: blocks that read the same weights run together.
template <int kOutputs>
struct FastLinearKernel {
  static constexpr int kThreads = kSplits * kLanes;
  static constexpr int kBlocksAtOnce = 2;
  static constexpr int64_t kAskedSharedBytes = SplitTile<kOutputs, 8, 2>::kSharedBytes;
  LinearArgs a;

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    switch (FastLinearRows(a)) {
      case 8:
        return Multiply<SplitTile<kOutputs, 8, 2>>(block);
      case 16:
        return Multiply<SplitTile<kOutputs, 16, 1>>(block);
      case 32:
        return Multiply<SplitTile<kOutputs, 32, 1>>(block);
      default:
        if constexpr (kOutputs > 16) Multiply<SplitTile<kOutputs, kMostSplitRows, 1>>(block);
    }
  }

 private:
  template <class Tile, class Block>
  JANUS_DEVICE void Multiply(Block& block) const {
    const int64_t down = (a.rows + Tile::kRows - 1) / Tile::kRows;
    const int64_t t0 = block.index() % down * Tile::kRows;
    const int64_t n0 = block.index() / down * Tile::kOutputs;
    const int64_t x_stride = a.x_stride != 0 ? a.x_stride : a.inputs;
    const int64_t y_stride = a.y_stride != 0 ? a.y_stride : a.outputs;
    const uint16_t* const w = static_cast<const uint16_t*>(a.weight) + n0 * a.inputs;
    const uint16_t* const x = static_cast<const uint16_t*>(a.x) + t0 * x_stride;
    const auto can_copy = [](const uint16_t* first, int64_t stride) {
      return reinterpret_cast<uintptr_t>(first) % kCopyBytes == 0 && stride % kChunk == 0;
    };
    SplitProduct<Tile>::Run(
        block,
        SplitOperand{[&](int n) { return w + n * a.inputs; },
                     PartOfTile(a.outputs, n0, Tile::kOutputs), can_copy(w, a.inputs)},
        SplitOperand{[&](int r) { return x + r * x_stride; }, PartOfTile(a.rows, t0, Tile::kRows),
                     can_copy(x, x_stride)},
        a.inputs, [&](int r, int n, float sum) {
          if (a.bias != nullptr) sum += Load(a.bias, a.bias_dtype, n0 + n);
          float& y = a.y[(t0 + r) * y_stride + n0 + n];
          y = a.accumulate ? y + sum : sum;
        });
  }
};

// Its bytes and operations are those of the plain form.
template <int kOutputs>
Plan PlanFastLinear(const LinearArgs& a) {
  Plan plan = PlanLinear(a);
  plan.blocks = CeilDiv(a.outputs, kOutputs) * CeilDiv(a.rows, FastLinearRows(a));
  plan.threads = FastLinearKernel<kOutputs>::kThreads;
  plan.shared_bytes = FastLinearKernel<kOutputs>::kAskedSharedBytes;
  return plan;
}

}  // namespace janus::kernels::cuda
