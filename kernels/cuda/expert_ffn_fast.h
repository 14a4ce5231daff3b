#pragma once

// The experts in their fast form: two launches, each a block per (expert, tile of weight rows) that
// takes the expert's rows in tiles of up to 64. Up to 64 rows the read of the weights is the limit.
// Specification: ../reference/grouped_expert_ffn.cc
//
// Only the device knows how many rows an expert has. So the grid has every expert, and a block of
// an expert without rows ends at once. A tile of many rows takes two or four times the weight rows:
// each block reads the activations for itself, and beside 64 weight rows these would be as many
// bytes as the weights, or more in fp8 and mxfp4. One block then does the work of two or four
// neighbours, and the others end at once.

#include <type_traits>

#include "kernels/cuda/products.h"
#include "kernels/cuda/weight_tile.h"

namespace janus::kernels::cuda {

// Weight rows of one half of the narrow tile.
inline constexpr int kFastHalf = WeightTile<16, 8, 1>::kHalf;

// Calls fn(tile, first, rows) for those tiles of an expert's rows in which the block has work.
// `tile` is the WeightTile that it takes there; `block` is its number among the expert's blocks.
template <int kWeightBits, class Fn>
JANUS_DEVICE void ForRowTiles(int count, int64_t block, Fn fn) {
  for (int first = 0; first < count; first += kMostTileRows) {
    const int rows = PartOfTile(count, first, kMostTileRows);
    const auto take = [&](auto most_rows) {
      constexpr int kRows = decltype(most_rows)::value;
      constexpr int kWidth = WeightFormat<kWeightBits>::WidthFor(kRows);
      if (block % kWidth == 0) fn(WeightTile<kWeightBits, kRows, kWidth>{}, first, rows);
    };
    if (rows <= 8) {
      take(std::integral_constant<int, 8>{});
    } else if (rows <= 16) {
      take(std::integral_constant<int, 16>{});
    } else if (rows <= 32) {
      take(std::integral_constant<int, 32>{});
    } else {
      take(std::integral_constant<int, kMostTileRows>{});
    }
  }
}

// What both launches are: their block, and their arguments.
template <int kWeightBits>
struct FastExpertKernel {
  using AnyTile = WeightTile<kWeightBits, 8, 1>;
  static constexpr int kThreads = AnyTile::kThreads;
  static constexpr int kBlocksAtOnce = 2;
  static constexpr int64_t kAskedSharedBytes = AnyTile::kSharedBytes;
  GroupedExpertFfnArgs a;
  int64_t h_row_bytes = 0;
};

// h = round(silu(gate x) * up x). A tile's halves are the same rows of gate and of up.
template <int kWeightBits>
struct FastExpertUpKernel : FastExpertKernel<kWeightBits> {
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const GroupedExpertFfnArgs& a = this->a;
    const int64_t row_bytes = this->h_row_bytes;
    const int64_t across = (a.intermediate + kFastHalf - 1) / kFastHalf;
    const int64_t n0 = block.index() % across * kFastHalf;
    const ActiveExpert& expert = a.experts[block.index() / across];
    ForRowTiles<kWeightBits>(expert.count, n0 / kFastHalf, [&](auto tile, int first, int rows) {
      using Tile = decltype(tile);
      const Contribution* const c = a.contributions + expert.first + first;
      const WeightHalf<typename Tile::Format::Element> w[2] = {
          HalfOfMatrix<Tile>(expert.gate, expert.gate_scales, a.intermediate, a.hidden, n0),
          HalfOfMatrix<Tile>(expert.up, expert.up_scales, a.intermediate, a.hidden, n0)};
      PerThread<typename Tile::Sums, Tile::kThreads> sums;
      WeightProduct<Tile>::Run(
          block, w, rows, a.hidden, [&](int r) { return static_cast<const uint16_t*>(c[r].x); },
          sums);
      ForEachOfHalves<Tile>(block, rows, w[0].rows, sums, [&](int r, int n, float gate, float up) {
        auto* const h =
            static_cast<unsigned char*>(a.workspace) + (expert.first + first + r) * row_bytes;
        Store(h, DType::kBFloat16, n0 + n, Silu(gate) * up);
      });
    });
  }
};
template <int kWeightBits>
Plan PlanFastExpertUp(const GroupedExpertFfnArgs& a) {
  using Kernel = FastExpertKernel<kWeightBits>;
  return {a.num_experts * CeilDiv(a.intermediate, kFastHalf), Kernel::kThreads,
          Kernel::kAskedSharedBytes, 0, 4 * a.num_contributions * a.intermediate * a.hidden};
}

// y = round(weight * (down h)). A tile's halves follow one another in down.
template <int kWeightBits>
struct FastExpertDownKernel : FastExpertKernel<kWeightBits> {
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const GroupedExpertFfnArgs& a = this->a;
    const int64_t row_bytes = this->h_row_bytes;
    const int64_t across = (a.hidden + 2 * kFastHalf - 1) / (2 * kFastHalf);
    const int64_t n0 = block.index() % across * (2 * kFastHalf);
    const ActiveExpert& expert = a.experts[block.index() / across];
    ForRowTiles<kWeightBits>(
        expert.count, n0 / (2 * kFastHalf), [&](auto tile, int first, int rows) {
          using Tile = decltype(tile);
          const int64_t n1 = n0 + Tile::kHalf;
          const Contribution* const c = a.contributions + expert.first + first;
          const auto* const h =
              static_cast<const unsigned char*>(a.workspace) + (expert.first + first) * row_bytes;
          const WeightHalf<typename Tile::Format::Element> w[2] = {
              HalfOfMatrix<Tile>(expert.down, expert.down_scales, a.hidden, a.intermediate, n0),
              HalfOfMatrix<Tile>(expert.down, expert.down_scales, a.hidden, a.intermediate, n1)};
          PerThread<typename Tile::Sums, Tile::kThreads> sums;
          WeightProduct<Tile>::Run(
              block, w, rows, a.intermediate,
              [&](int r) { return reinterpret_cast<const uint16_t*>(h + r * row_bytes); }, sums);
          ForEachOfHalves<Tile>(block, rows, w[0].rows, sums,
                                [&](int r, int n, float y0, float y1) {
                                  Store(c[r].y, a.y_dtype, n0 + n, c[r].weight * y0);
                                  if (n >= w[1].rows) return;
                                  Store(c[r].y, a.y_dtype, n1 + n, c[r].weight * y1);
                                });
        });
  }
};
template <int kWeightBits>
Plan PlanFastExpertDown(const GroupedExpertFfnArgs& a) {
  using Kernel = FastExpertKernel<kWeightBits>;
  return {a.num_experts * CeilDiv(a.hidden, 2 * kFastHalf), Kernel::kThreads,
          Kernel::kAskedSharedBytes, 0, 2 * a.num_contributions * a.intermediate * a.hidden};
}

// The bytes that the blocks of an expert with up to 64 rows read from the L2 cache: each reads the
// rows of activations for itself. ExpertBytes is the least that must come from memory. Scales,
// which are 1 in 4,096 of fp8, are left out.
template <int kWeightBits>
constexpr int64_t FastExpertReads(const GroupedExpertFfnArgs& a, int64_t rows) {
  const int64_t wide = WeightFormat<kWeightBits>::WidthFor(static_cast<int>(rows));
  const int64_t weights = 3 * a.hidden * a.intermediate;
  return weights * kWeightBits / 8 + (kWeightBits == 4 ? weights / kMxBlock : 0) +
         2 * rows *
             (CeilDiv(a.intermediate, wide * kFastHalf) * a.hidden +
              CeilDiv(a.hidden, wide * 2 * kFastHalf) * a.intermediate);
}

}  // namespace janus::kernels::cuda
