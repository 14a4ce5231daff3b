#pragma once

// The experts in their fast form: two launches, each a block per (expert, tile of weight rows) that
// takes the expert's rows in tiles of up to 64. Bound by the read of the weights up to 64 rows.
// Specification: ../reference/grouped_expert_ffn.cc
//
// How many rows an expert has only the device knows: the grid has every expert, and a block of one
// without rows ends at once. A tile of more than 32 rows takes twice the weight rows, since with 64
// of them the rows of activations, which each block reads for itself, would be as many bytes as the
// weights; of two neighbouring blocks one then does the work of both.

#include "kernels/cuda/products.h"
#include "kernels/cuda/weight_tile.h"

namespace janus::kernels::cuda {

// Weight rows of one half of the narrow tile.
inline constexpr int kFastHalf = AnyWeightTile::kHalf;

// fn(tile, first, rows) for tiles of an expert's rows: `tile` is the WeightTile that the block
// takes there, if it has a part in it.
template <class Fn>
JANUS_DEVICE void ForRowTiles(int count, bool is_even_block, Fn fn) {
  for (int first = 0; first < count; first += kMostTileRows) {
    const int rows = PartOfTile(count, first, kMostTileRows);
    if (rows <= 8) {
      fn(WeightTile<8, 1>{}, first, rows);
    } else if (rows <= 16) {
      fn(WeightTile<16, 1>{}, first, rows);
    } else if (rows <= 32) {
      fn(WeightTile<32, 1>{}, first, rows);
    } else if (is_even_block) {
      fn(WeightTile<kMostTileRows, 2>{}, first, rows);
    }
  }
}

// Up to Tile::kHalf rows of a matrix [rows,inner] from row `first` on; there may be none.
template <class Tile>
JANUS_DEVICE WeightHalf HalfOfMatrix(const void* matrix, int64_t rows, int64_t inner,
                                     int64_t first) {
  const auto* const begin = static_cast<const uint16_t*>(matrix);
  if (first >= rows) return {begin, 0};
  return {begin + first * inner, PartOfTile(rows, first, Tile::kHalf)};
}

// What both launches are: their block, and their arguments.
struct FastExpertKernel {
  static constexpr int kThreads = AnyWeightTile::kThreads;
  static constexpr int kBlocksAtOnce = 2;
  static constexpr int64_t kAskedSharedBytes = AnyWeightTile::kSharedBytes;
  GroupedExpertFfnArgs a;
  int64_t h_row_bytes = 0;
};

// h = round(silu(gate x) * up x). A tile's halves are the same rows of gate and of up.
struct FastExpertUpKernel : FastExpertKernel {
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const int64_t across = (a.intermediate + kFastHalf - 1) / kFastHalf;
    const int64_t n0 = block.index() % across * kFastHalf;
    const ActiveExpert& expert = a.experts[block.index() / across];
    ForRowTiles(expert.count, n0 / kFastHalf % 2 == 0, [&](auto tile, int first, int rows) {
      using Tile = decltype(tile);
      const Contribution* const c = a.contributions + expert.first + first;
      const WeightHalf w[2] = {HalfOfMatrix<Tile>(expert.gate, a.intermediate, a.hidden, n0),
                               HalfOfMatrix<Tile>(expert.up, a.intermediate, a.hidden, n0)};
      PerThread<typename Tile::Sums, Tile::kThreads> sums;
      WeightProduct<Tile>::Run(
          block, w, rows, a.hidden, [&](int r) { return static_cast<const uint16_t*>(c[r].x); },
          sums);
      ForEachOfHalves<Tile>(block, rows, w[0].rows, sums, [&](int r, int n, float gate, float up) {
        auto* const h =
            static_cast<unsigned char*>(a.workspace) + (expert.first + first + r) * h_row_bytes;
        Store(h, DType::kBFloat16, n0 + n, Silu(gate) * up);
      });
    });
  }
};
inline Plan PlanFastExpertUp(const GroupedExpertFfnArgs& a) {
  return {a.num_experts * CeilDiv(a.intermediate, kFastHalf), FastExpertUpKernel::kThreads,
          AnyWeightTile::kSharedBytes, 0, 4 * a.num_contributions * a.intermediate * a.hidden};
}

// y = round(weight * (down h)). A tile's halves follow one another in down.
struct FastExpertDownKernel : FastExpertKernel {
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const int64_t across = (a.hidden + 2 * kFastHalf - 1) / (2 * kFastHalf);
    const int64_t n0 = block.index() % across * (2 * kFastHalf);
    const ActiveExpert& expert = a.experts[block.index() / across];
    ForRowTiles(expert.count, n0 / (2 * kFastHalf) % 2 == 0, [&](auto tile, int first, int rows) {
      using Tile = decltype(tile);
      const int64_t n1 = n0 + Tile::kHalf;
      const Contribution* const c = a.contributions + expert.first + first;
      const auto* const h =
          static_cast<const unsigned char*>(a.workspace) + (expert.first + first) * h_row_bytes;
      const WeightHalf w[2] = {HalfOfMatrix<Tile>(expert.down, a.hidden, a.intermediate, n0),
                               HalfOfMatrix<Tile>(expert.down, a.hidden, a.intermediate, n1)};
      PerThread<typename Tile::Sums, Tile::kThreads> sums;
      WeightProduct<Tile>::Run(
          block, w, rows, a.intermediate,
          [&](int r) { return reinterpret_cast<const uint16_t*>(h + r * h_row_bytes); }, sums);
      ForEachOfHalves<Tile>(block, rows, w[0].rows, sums, [&](int r, int n, float y0, float y1) {
        Store(c[r].y, a.y_dtype, n0 + n, c[r].weight * y0);
        if (n >= w[1].rows) return;
        Store(c[r].y, a.y_dtype, n1 + n, c[r].weight * y1);
      });
    });
  }
};
inline Plan PlanFastExpertDown(const GroupedExpertFfnArgs& a) {
  return {a.num_experts * CeilDiv(a.hidden, 2 * kFastHalf), FastExpertDownKernel::kThreads,
          AnyWeightTile::kSharedBytes, 0, 2 * a.num_contributions * a.intermediate * a.hidden};
}

// What the blocks of an expert with up to 64 rows ask of the level-2 cache, beside the least that
// must come from memory (ExpertBytes): each reads the rows of activations for itself.
constexpr int64_t FastExpertReads(const GroupedExpertFfnArgs& a, int64_t rows) {
  const int64_t wide = rows > 32 ? 2 : 1;
  return 6 * a.hidden * a.intermediate +
         2 * rows *
             (CeilDiv(a.intermediate, wide * kFastHalf) * a.hidden +
              CeilDiv(a.hidden, wide * 2 * kFastHalf) * a.intermediate);
}

}  // namespace janus::kernels::cuda
