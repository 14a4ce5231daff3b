#pragma once

// The experts on sm_90a: two launches over wgmma_tile.h, with weights in fp8 and mxfp4 over
// wgmma_packed.h.
// Specification: ../reference/grouped_expert_ffn.cc
//
// There are two ways to deal a call into blocks, with the same bits. The host chooses by how many
// rows are likely (TakesWideTiles), because only the device knows how many an expert has.
//   - Narrow, for few rows, limited by the read of the weights: a block per (expert, 64 weight
//     rows) takes the expert's rows in tiles of up to 64. A block of an expert without rows ends at
//     once.
//   - Wide: a tile is 128 weight rows by up to 256 rows (fp8: 128, mxfp4: 192). As many blocks as
//     the device runs at once first count the tiles of all experts, then go over them.

#include <type_traits>

#include "kernels/cuda/products.h"
#include "kernels/cuda/wgmma_packed.h"

namespace janus::kernels::cuda {

// Rows of the smallest tile. Where weights pass through registers, the compiler reserves registers
// for each tile of a kernel separately. Wide blocks have few to spare, so they have no small tiles.
template <class Block>
inline constexpr int kLeastTile = Block::kGroups == 2 && Block::kBits != 16 ? 32 : 8;

// fn(tile) with the tile of the block that so many rows take.
template <class Block, int kRows = kLeastTile<Block>, class Fn>
JANUS_DEVICE void ForTileOf(int rows, Fn fn) {
  if constexpr (kRows < Block::kMostRows) {
    if (rows > kRows) {
      constexpr int kNext = kRows < 128 ? 2 * kRows : kRows + 64;
      ForTileOf<Block, kNext>(rows, fn);
      return;
    }
  }
  fn(WgmmaTile<Block::kGroups, kRows, Block::kBits>{});
}

// By the weights of the tile.
template <class Tile>
using ProductOf = std::conditional_t<Tile::kBits == 16, WgmmaProduct<Tile>, PackedProduct<Tile>>;
template <class Tile>
using WeightHalfOf = WeightHalf<typename Tile::Format::Element>;

// h = round(silu(gate x) * up x) of rows first .. first+rows-1 of an expert, for the outputs of
// tile `across`. The halves of a tile are the same rows of gate and of up.
struct WgmmaUp {
  // Outputs of a tile.
  static constexpr int Outputs(int half) { return half; }
  JANUS_DEVICE static int64_t OutputsOf(const GroupedExpertFfnArgs& a) { return a.intermediate; }

  template <class Tile, class Block>
  JANUS_DEVICE static void Take(Block& block, const GroupedExpertFfnArgs& a, int64_t h_row_bytes,
                                const ActiveExpert& expert, int64_t across, int first, int rows) {
    const int64_t n0 = across * Outputs(Tile::kHalf);
    const Contribution* const c = a.contributions + expert.first + first;
    const WeightHalfOf<Tile> w[2] = {
        HalfOfMatrix<Tile>(expert.gate, expert.gate_scales, a.intermediate, a.hidden, n0),
        HalfOfMatrix<Tile>(expert.up, expert.up_scales, a.intermediate, a.hidden, n0)};
    PerThread<typename Tile::Sums, Tile::kThreads> sums;
    ProductOf<Tile>::Run(
        block, w, rows, a.hidden, [&](int r) { return static_cast<const uint16_t*>(c[r].x); },
        sums);
    auto* const h = static_cast<unsigned char*>(a.workspace) + (expert.first + first) * h_row_bytes;
    ForEachOfWgmma<Tile>(block, rows, w[0].rows, sums, [&](int r, int n, float gate, float up) {
      Store(h + r * h_row_bytes, DType::kBFloat16, n0 + n, Silu(gate) * up);
    });
  }
};

// y = round(weight * (down h)). A tile's halves follow one another in down.
struct WgmmaDown {
  static constexpr int Outputs(int half) { return 2 * half; }
  JANUS_DEVICE static int64_t OutputsOf(const GroupedExpertFfnArgs& a) { return a.hidden; }

  template <class Tile, class Block>
  JANUS_DEVICE static void Take(Block& block, const GroupedExpertFfnArgs& a, int64_t h_row_bytes,
                                const ActiveExpert& expert, int64_t across, int first, int rows) {
    const int64_t n0 = across * Outputs(Tile::kHalf);
    const int64_t n1 = n0 + Tile::kHalf;
    const Contribution* const c = a.contributions + expert.first + first;
    const auto* const h =
        static_cast<const unsigned char*>(a.workspace) + (expert.first + first) * h_row_bytes;
    const WeightHalfOf<Tile> w[2] = {
        HalfOfMatrix<Tile>(expert.down, expert.down_scales, a.hidden, a.intermediate, n0),
        HalfOfMatrix<Tile>(expert.down, expert.down_scales, a.hidden, a.intermediate, n1)};
    PerThread<typename Tile::Sums, Tile::kThreads> sums;
    ProductOf<Tile>::Run(
        block, w, rows, a.intermediate,
        [&](int r) { return reinterpret_cast<const uint16_t*>(h + r * h_row_bytes); }, sums);
    // The format is asked once, and a contribution read once: what is stored might lie in their
    // list, as far as the compiler sees.
    const auto store = [&](auto y_dtype) {
      ForEachOfWgmma<Tile>(block, rows, w[0].rows, sums, [&](int r, int n, float y0, float y1) {
        const Contribution of = c[r];
        Store(of.y, y_dtype, n0 + n, of.weight * y0);
        if (n < w[1].rows) Store(of.y, y_dtype, n1 + n, of.weight * y1);
      });
    };
    if (a.y_dtype == DType::kBFloat16) {
      store(std::integral_constant<DType, DType::kBFloat16>{});
    } else {
      store(std::integral_constant<DType, DType::kFloat32>{});
    }
  }
};

template <int kGroups, int kBits>
struct WgmmaExpertKernel : WgmmaBlock<kGroups, kBits> {
  GroupedExpertFfnArgs a;
  int64_t h_row_bytes = 0;
};

template <class Side, int kBits>
struct NarrowWgmmaKernel : WgmmaExpertKernel<1, kBits> {
  using Own = WgmmaBlock<1, kBits>;
  using Own::kHalf, Own::kMostRows;
  static constexpr int64_t kAskedSharedBytes = Own::kRestAt;

  template <class Block>
  JANUS_DEVICE void Run(Block& block) const {
    const GroupedExpertFfnArgs& a = this->a;
    const int64_t across = (Side::OutputsOf(a) + Side::Outputs(kHalf) - 1) / Side::Outputs(kHalf);
    const ActiveExpert& expert = a.experts[block.index() / across];
    for (int first = 0; first < expert.count; first += kMostRows) {
      const int rows = PartOfTile(expert.count, first, kMostRows);
      ForTileOf<Own>(rows, [&](auto tile) {
        Side::template Take<decltype(tile)>(block, a, this->h_row_bytes, expert,
                                            block.index() % across, first, rows);
      });
    }
  }
};

// An expert's tiles are taken in bands of up to kWgmmaBand tiles of rows. In a band, tiles of rows
// that share their weights are neighbours, so blocks work on them at the same time. So weights are
// read from memory once a band. The rows of a band come from the L2 cache as far as they fit, which
// the 58.7 MB of DeepSeek-V3's up do not. In fp8 a band has half the rows, and weights half the
// bytes.
inline constexpr int kWgmmaBand = 16;
inline constexpr int kMostWideExperts = 255;

template <class Side, int kBits>
struct WideWgmmaKernel : WgmmaExpertKernel<2, kBits> {
  using Own = WgmmaBlock<2, kBits>;
  using Own::kHalf, Own::kMostRows, Own::kRestAt, Own::kThreads;
  // Behind the row pointers: how many tiles of rows the experts before each have; the tile that is
  // taken.
  struct Found {
    int32_t expert;
    int32_t before;  // tiles of rows of the experts before it
    int32_t tiles;   // tiles of rows of this expert
  };
  static constexpr int kFoundAt = kRestAt + 4 * (kMostWideExperts + 1);
  static constexpr int64_t kAskedSharedBytes = kFoundAt + sizeof(Found);

  template <class Block>
  JANUS_DEVICE void Run(Block& block) const {
    const GroupedExpertFfnArgs& a = this->a;
    const int64_t across = (Side::OutputsOf(a) + Side::Outputs(kHalf) - 1) / Side::Outputs(kHalf);
    const int experts = static_cast<int>(a.num_experts);
    auto* const before = reinterpret_cast<int32_t*>(block.shared() + kRestAt);
    auto& found = *reinterpret_cast<Found*>(block.shared() + kFoundAt);
    CountTiles(block, experts, before);
    const int64_t items = block.Uniform(before[experts]) * across;
    for (int64_t item = block.index(); item < items; item += block.blocks()) {
      block.Phase([&](int thread) {
        if (thread >= experts) return;
        if (before[thread] * across > item || before[thread + 1] * across <= item) return;
        found = {thread, before[thread], before[thread + 1] - before[thread]};
      });
      const Found of = block.Uniform(found);
      const int64_t number = item - of.before * across;
      const int64_t band = number / (kWgmmaBand * across) * kWgmmaBand;
      const int64_t in_band = number - band * across;
      const int64_t tiles = of.tiles - band < kWgmmaBand ? of.tiles - band : kWgmmaBand;
      const ActiveExpert& expert = a.experts[of.expert];
      const int first = static_cast<int>(band + in_band % tiles) * kMostRows;
      const int rows = PartOfTile(expert.count, first, kMostRows);
      ForTileOf<Own>(rows, [&](auto tile) {
        Side::template Take<decltype(tile)>(block, a, this->h_row_bytes, expert, in_band / tiles,
                                            first, rows);
      });
    }
  }

 private:
  // before[e]: tiles of rows of the experts before e; before[experts]: of all.
  template <class Block>
  JANUS_DEVICE void CountTiles(Block& block, int experts, int32_t* before) const {
    static_assert(kMostWideExperts < kThreads);
    auto* const tiles = reinterpret_cast<int32_t*>(block.shared());
    block.Phase([&](int thread) {
      if (thread >= experts) return;
      tiles[thread] = (this->a.experts[thread].count + kMostRows - 1) / kMostRows;
    });
    block.Phase([&](int thread) {
      if (thread > experts) return;
      int32_t sum = 0;
      for (int e = 0; e < thread; ++e) sum += tiles[e];
      before[thread] = sum;
    });
  }
};

template <class Side, int kGroups, int kBits>
using WgmmaKernelOf =
    std::conditional_t<kGroups == 1, NarrowWgmmaKernel<Side, kBits>, WideWgmmaKernel<Side, kBits>>;

// kGroups: 1 narrow, 2 wide; kBits: of weights.
template <int kGroups, int kBits = 16>
struct WgmmaExpertUpKernel : WgmmaKernelOf<WgmmaUp, kGroups, kBits> {
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    this->Run(block);
  }
};
template <int kGroups, int kBits = 16>
struct WgmmaExpertDownKernel : WgmmaKernelOf<WgmmaDown, kGroups, kBits> {
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    this->Run(block);
  }
};

// For speed alone. Narrow tiles read an expert's rows once for each 64 weight rows. Above so many
// likely rows an expert, dealt evenly, that read costs more than the start of wide tiles. The L2
// cache's rate decides where this is, not the stages of a tile (README.md).
inline constexpr int64_t kNarrowRows = 32;
constexpr bool TakesWideTiles(const GroupedExpertFfnArgs& a) {
  const int64_t rows = a.likely_contributions > 0 ? a.likely_contributions : a.num_contributions;
  return a.num_experts <= kMostWideExperts && rows > kNarrowRows * a.num_experts;
}

// `outputs` of a launch, of which a tile has so many; `flops` of it. Wide: at most `most_blocks`,
// as many as the device runs at once.
template <class Kernel>
constexpr Plan PlanWgmmaExperts(const GroupedExpertFfnArgs& a, int64_t outputs, int64_t of_tile,
                                int64_t flops, int64_t most_blocks) {
  const int64_t across = CeilDiv(outputs, of_tile);
  const int64_t tiles_of_rows =
      std::min(a.num_contributions, a.num_experts + a.num_contributions / Kernel::kMostRows);
  return {
      Kernel::kGroups == 1 ? a.num_experts * across : std::min(most_blocks, tiles_of_rows * across),
      Kernel::kThreads, Kernel::kAskedSharedBytes, 0, flops};
}
template <int kGroups, int kBits = 16>
constexpr Plan PlanWgmmaExpertUp(const GroupedExpertFfnArgs& a, int64_t most_blocks) {
  using Kernel = WgmmaExpertUpKernel<kGroups, kBits>;
  return PlanWgmmaExperts<Kernel>(a, a.intermediate, WgmmaUp::Outputs(Kernel::kHalf),
                                  4 * a.num_contributions * a.intermediate * a.hidden, most_blocks);
}
template <int kGroups, int kBits = 16>
constexpr Plan PlanWgmmaExpertDown(const GroupedExpertFfnArgs& a, int64_t most_blocks) {
  using Kernel = WgmmaExpertDownKernel<kGroups, kBits>;
  return PlanWgmmaExperts<Kernel>(a, a.hidden, WgmmaDown::Outputs(Kernel::kHalf),
                                  2 * a.num_contributions * a.intermediate * a.hidden, most_blocks);
}

// What the blocks of an expert with `rows` rows ask of the level-2 cache: each tile its weights and
// its rows. Scales of fp8, which are 1 in 4,096, are left out.
template <int kGroups, int kBits = 16>
constexpr int64_t WgmmaExpertReads(const GroupedExpertFfnArgs& a, int64_t rows) {
  using Block = WgmmaBlock<kGroups, kBits>;
  const int64_t weights = 3 * a.hidden * a.intermediate;
  return (weights * kBits / 8 + (kBits == 4 ? weights / kMxBlock : 0)) *
             CeilDiv(rows, int64_t{Block::kMostRows}) +
         2 * rows *
             (CeilDiv(a.intermediate, WgmmaUp::Outputs(Block::kHalf)) * a.hidden +
              CeilDiv(a.hidden, WgmmaDown::Outputs(Block::kHalf)) * a.intermediate);
}

}  // namespace janus::kernels::cuda
