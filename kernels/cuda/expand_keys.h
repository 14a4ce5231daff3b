#pragma once

// Expands keys and values from the cache into the workspace, before the rows of a call attend to
// them (expanded_fast.h): the matrix product of latent vectors and a head's expansion, for some key
// blocks and heads. Specification: ../reference/expanded_attention.cc
//
// A block of threads keeps 128 rows of an expansion in shared memory, which belong to the keys of a
// head or to its values. It multiplies them by 128 positions after 128. Asynchronous copies bring
// the latent vectors of these, two quarters of the rank ahead. So a multiplication reads latent
// vectors alone, once for each half of a head, from the GPU's L2 cache.
//
// The sum of one number goes over the rank from first to last, 16 after 16, in fp32, and is rounded
// to bfloat16. Positions that no row of the run sees are zeros, and their pages are not looked up.

#include "kernels/cuda/expanded_runs.h"
#include "kernels/cuda/stages.h"

namespace janus::kernels::cuda {

// What is expanded at a time: `blocks` key blocks from the first on, of `heads` heads, and where
// that lies in the workspace.
struct ExpandedChunk {
  static constexpr int kHalf = kKeyBlock * kSharedExpansion;  // keys of a block, or values
  static constexpr int kRope = kKeyBlock * kAbsorbedRope;
  static constexpr int64_t kHeadBlockBytes = int64_t{2} * 2 * kHalf;
  static constexpr int64_t kRopeBlockBytes = int64_t{2} * kRope;

  const ExpandedRuns* runs = nullptr;
  uint16_t* halves = nullptr;  // [heads,blocks,2,64,128]: keys, then values
  uint16_t* rope = nullptr;    // [blocks,64,64]: of all heads
  float* states = nullptr;     // [rows,heads], as SplitStates; of a call in several chunks
  int32_t first_block = 0;
  int32_t blocks = 0;
  int head = 0;
  int heads = 0;
  // No chunk follows, whatever rows see: what is not done then has no result, and no states, for
  // which a call of one chunk has no room.
  bool is_last = false;

  JANUS_DEVICE int32_t EndBlock() const {
    const int32_t end = runs->Blocks();
    return end - first_block < blocks ? end : first_block + blocks;
  }
  // Of block `block` of the chunk, keys or values of its head `h`.
  JANUS_DEVICE uint16_t* Half(int h, int32_t block, int half) const {
    return halves + ((int64_t{h} * blocks + block) * 2 + half) * kHalf;
  }
  JANUS_DEVICE uint16_t* Rope(int32_t block) const { return rope + int64_t{block} * kRope; }
};

// What ExpandKeysKernel has in shared memory, in bytes from its start. Lines are 128 elements of a
// row, their chunks permuted by the row's number.
struct ExpandKeysShared {
  static constexpr int kRows = 128;  // of an expansion, and positions at a time
  static constexpr int kLine = 128;
  static constexpr int kLines = kAbsorbedRank / kLine;
  static constexpr int kLineBytes = 2 * kLine;
  static constexpr int kPieceBytes = kRows * kLineBytes;
  static constexpr int kStages = 3;
  static constexpr int kUnits = 64;  // of 128 positions; their pages are looked up at once
  static constexpr int kUnitPages = kRows / kPageTokens;
  static constexpr int kStage = kLines * kPieceBytes;             // weights first
  static constexpr int kPages = kStage + kStages * kPieceBytes;   // [unit][8]
  static constexpr int kSeen = kPages + 4 * kUnits * kUnitPages;  // [unit][8] uint8: positions
  static constexpr int64_t kBytes = kSeen + kUnits * kUnitPages;
};

// Items are (half of a head, unit of two key blocks), units first; a block has neighbours of them.
struct ExpandKeysKernel {
  using Shared = ExpandKeysShared;
  static constexpr int kThreads = 256;
  static constexpr int kBlocksAtOnce = 1;
  static constexpr int64_t kAskedSharedBytes = Shared::kBytes;
  static constexpr int kChunks = Shared::kLine / kChunk;          // of a line
  static constexpr int kRowsAtOnce = kThreads / kChunks;          // that all threads bring
  static constexpr int kBlocks16 = kKeyBlock / 16;                // of positions, of a warp
  static constexpr int kBlocks8 = 4;                              // of outputs
  static constexpr int kAcross = Shared::kRows / (8 * kBlocks8);  // warps beside one another
  static_assert(kRowsAtOnce == kPageTokens && 2 * kAcross * kLanes == kThreads);

  ExpandedAttentionArgs a;
  ExpandedChunk to;

  struct Sums {
    float of[kBlocks16][kBlocks8][4];
  };

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const int32_t blocks = to.EndBlock() - to.first_block;
    if (blocks <= 0) return;
    const int64_t units = (blocks + 1) / 2;
    const int64_t items = units * to.heads * 2;
    int64_t item = items * block.index() / block.blocks();
    const int64_t end = items * (block.index() + 1) / block.blocks();
    JANUS_KEEP_LOOP
    while (item < end) {
      const int64_t unit = item % units;
      int64_t count = units - unit < end - item ? units - unit : end - item;
      if (count > Shared::kUnits) count = Shared::kUnits;
      Units(block, static_cast<int>(item / units), static_cast<int32_t>(unit),
            static_cast<int>(count));
      item += count;
    }
  }

 private:
  JANUS_DEVICE static int Offset(int row, int chunk) {
    return row * Shared::kLineBytes + (chunk ^ row % 8) * kCopyBytes;
  }

  // Units first .. first+count-1 of half `head_half`.
  template <class Block>
  JANUS_DEVICE void Units(Block& block, int head_half, int32_t first, int count) const {
    auto* const pages = reinterpret_cast<int32_t*>(block.shared() + Shared::kPages);
    uint8_t* const seen = block.shared() + Shared::kSeen;
    const int32_t end_block = to.EndBlock();
    block.Phase([&](int thread) {
      JANUS_KEEP_LOOP
      for (int i = thread; i < count * Shared::kUnitPages; i += kThreads) {
        constexpr int kOfBlock = kKeyBlock / kPageTokens;
        const int32_t key_block = to.first_block + 2 * first + i / kOfBlock;
        pages[i] = 0;
        seen[i] = 0;
        if (key_block >= end_block) continue;
        const ExpandedRun& run = to.runs->RunOf(key_block);
        const int32_t page = (key_block - run.first_block) * kOfBlock + i % kOfBlock;
        const int32_t behind = run.last + 1 - page * kPageTokens;  // positions from there on
        if (behind <= 0) continue;
        pages[i] = a.rows[run.row].block_table[page];
        seen[i] = static_cast<uint8_t>(behind < kPageTokens ? behind : kPageTokens);
      }
    });
    PerThread<Sums, kThreads> sums;
    RunStages<Shared::kStages>(
        block, count * Shared::kLines,
        [&](auto& warp, int step, int stage) {
          if (step < Shared::kLines) FillWeights(block, warp, head_half, step);
          Fill(block, warp, step, stage);
          if (head_half == 0 && step % Shared::kLines == 0) {
            CopyRope(block, warp, step / Shared::kLines, first);
          }
        },
        [&](auto& warp, int step, int stage) {
          Multiply(block, warp, step, stage, sums);
          if (step % Shared::kLines == Shared::kLines - 1) {
            StoreSums(warp, head_half, first + step / Shared::kLines, sums);
          }
        });
  }

  // Line `line` of the half's 128 rows.
  template <class Block, class Warp>
  JANUS_DEVICE void FillWeights(Block& block, Warp& warp, int head_half, int line) const {
    const auto* const from = static_cast<const uint16_t*>(a.expand) +
                             (int64_t{2} * to.head + head_half) * Shared::kRows * kAbsorbedRank +
                             line * Shared::kLine;
    unsigned char* const to_line = block.shared() + line * Shared::kPieceBytes;
    const bool can_copy = reinterpret_cast<uintptr_t>(a.expand) % kCopyBytes == 0;
    warp.Lanes([&](int lane) {
      const int thread = warp.index() * kLanes + lane;
      const int chunk = thread % kChunks;
      JANUS_UNROLL
      for (int r0 = 0; r0 < Shared::kRows; r0 += kRowsAtOnce) {
        const int row = r0 + thread / kChunks;
        BringChunk(block, to_line + Offset(row, chunk),
                   from + int64_t{row} * kAbsorbedRank + chunk * kChunk, kChunk, can_copy);
      }
    });
  }

  // A quarter of the rank of the latent vectors of a unit: a page after the other.
  template <class Block, class Warp>
  JANUS_DEVICE void Fill(Block& block, Warp& warp, int step, int stage) const {
    const int page = step / Shared::kLines * Shared::kUnitPages;
    unsigned char* const to_stage = block.shared() + Shared::kStage + stage * Shared::kPieceBytes;
    warp.Lanes([&](int lane) {
      const int thread = warp.index() * kLanes + lane;
      const int chunk = thread % kChunks;
      const int token = thread / kChunks;
      JANUS_UNROLL
      for (int p = 0; p < Shared::kUnitPages; ++p) {
        const uint16_t* const from = Entry(block, page + p, token);
        const bool is_seen = token < block.shared()[Shared::kSeen + page + p];
        BringChunk(block, to_stage + Offset(p * kPageTokens + token, chunk),
                   from + step % Shared::kLines * Shared::kLine + chunk * kChunk,
                   is_seen ? kChunk : 0, PagesAreInChunks());
      }
    });
  }

  // Rope keys lie in the cache as they are multiplied.
  template <class Block, class Warp>
  JANUS_DEVICE void CopyRope(Block& block, Warp& warp, int unit, int32_t first) const {
    constexpr int kOfRow = kAbsorbedRope / kChunk;
    const int32_t block0 = 2 * (first + unit);
    const int32_t blocks = to.EndBlock() - to.first_block;
    warp.Lanes([&](int lane) {
      JANUS_UNROLL
      for (int i = warp.index() * kLanes + lane; i < Shared::kRows * kOfRow; i += kThreads) {
        const int key = i / kOfRow;
        if (block0 + key / kKeyBlock >= blocks) continue;
        const int page = unit * Shared::kUnitPages + key / kPageTokens;
        const bool is_seen = key % kPageTokens < block.shared()[Shared::kSeen + page];
        const uint16_t* const from =
            Entry(block, page, key % kPageTokens) + kAbsorbedRank + i % kOfRow * kChunk;
        uint16_t* const rope = to.Rope(block0 + key / kKeyBlock) + key % kKeyBlock * kAbsorbedRope +
                               i % kOfRow * kChunk;
        if (PagesAreInChunks()) {
          struct alignas(kCopyBytes) Chunk {
            uint16_t of[kChunk];
          };
          *reinterpret_cast<Chunk*>(rope) =
              is_seen ? *reinterpret_cast<const Chunk*>(from) : Chunk{};
        } else {
          MoveChunk(reinterpret_cast<unsigned char*>(rope), from, is_seen ? kChunk : 0);
        }
      }
    });
  }

  JANUS_DEVICE int64_t PageBytes() const {
    return a.cache.page_stride_bytes != 0
               ? a.cache.page_stride_bytes
               : LatentPageBytes(DType::kBFloat16, kAbsorbedRank, kAbsorbedRope);
  }
  JANUS_DEVICE bool PagesAreInChunks() const {
    return reinterpret_cast<uintptr_t>(a.cache.pages) % kCopyBytes == 0 &&
           PageBytes() % kCopyBytes == 0;
  }
  // What the cache holds of a position of page `page` of those that were looked up.
  template <class Block>
  JANUS_DEVICE const uint16_t* Entry(Block& block, int page, int token) const {
    const auto* const pages = reinterpret_cast<const int32_t*>(block.shared() + Shared::kPages);
    const auto* const from =
        static_cast<const unsigned char*>(a.cache.pages) + pages[page] * PageBytes();
    return reinterpret_cast<const uint16_t*>(from) + token * (kAbsorbedRank + kAbsorbedRope);
  }

  // A warp has a key block of the unit and 32 of its outputs.
  template <class Block, class Warp>
  JANUS_DEVICE static void Multiply(Block& block, Warp& warp, int step, int stage,
                                    PerThread<Sums, kThreads>& sums) {
    struct Positions {
      uint32_t of[kBlocks16][4];
    };
    const int first_lane = warp.index() * kLanes;
    const unsigned char* const weights =
        block.shared() + step % Shared::kLines * Shared::kPieceBytes;
    const unsigned char* const positions =
        block.shared() + Shared::kStage + stage * Shared::kPieceBytes;
    const int row0 = warp.index() / kAcross * kKeyBlock;
    const int output0 = warp.index() % kAcross * 8 * kBlocks8;
    if (step % Shared::kLines == 0) {
      warp.Lanes([&](int lane) { sums[first_lane + lane] = Sums{}; });
    }
    PerLane<Positions> of;
    JANUS_UNROLL
    for (int chunk = 0; chunk < kChunks; chunk += 2) {
      JANUS_UNROLL
      for (int m = 0; m < kBlocks16; ++m) {
        LoadMatrices(
            warp, [&](int lane) -> uint32_t(&)[4] { return of[lane].of[m]; },
            [&](int lane) {
              return positions + Offset(row0 + 16 * m + lane % 16, chunk + lane / 16);
            });
      }
      MultiplyRows<kBlocks16, kBlocks8>(
          warp, [&](int lane) { return sums[first_lane + lane].of; },
          [&](int lane) { return of[lane].of; },
          [&](int n, int row, int half) {
            return weights + Offset(output0 + 8 * n + row, chunk + half);
          });
    }
  }

  template <class Warp>
  JANUS_DEVICE void StoreSums(Warp& warp, int head_half, int32_t unit,
                              PerThread<Sums, kThreads>& sums) const {
    const int32_t key_block = 2 * unit + warp.index() / kAcross;
    if (to.first_block + key_block >= to.EndBlock()) return;
    uint16_t* const half =
        to.Half(head_half / 2, key_block, head_half % 2) + warp.index() % kAcross * 8 * kBlocks8;
    warp.Lanes([&](int lane) {
      const Sums& sum = sums[warp.index() * kLanes + lane];
      JANUS_UNROLL
      for (int m = 0; m < kBlocks16; ++m) {
        JANUS_UNROLL
        for (int n = 0; n < kBlocks8; ++n) {
          JANUS_UNROLL
          for (int i = 0; i < 4; i += 2) {
            const int key = 16 * m + lane / 4 + i / 2 * 8;
            *reinterpret_cast<uint32_t*>(half + key * kSharedExpansion + 8 * n + lane % 4 * 2) =
                uint32_t{ToBFloat16(sum.of[m][n][i])} | uint32_t{ToBFloat16(sum.of[m][n][i + 1])}
                                                            << 16;
          }
        }
      }
    });
  }
};

// One block on each of an H100's or H200's multiprocessors.
inline constexpr int64_t kExpandBlocks = 132;

// Bytes and operations are those of a whole chunk: expansions and latent vectors once, what comes
// of them.
inline Plan PlanExpandKeys(const ExpandedChunk& to) {
  const int64_t items = int64_t{2} * to.heads * CeilDiv(to.blocks, 2);
  const int64_t numbers = int64_t{to.blocks} * to.heads * 2 * ExpandedChunk::kHalf;
  const int64_t entries = int64_t{to.blocks} * kKeyBlock * (kAbsorbedRank + kAbsorbedRope);
  const int64_t weights = int64_t{to.heads} * 2 * kSharedExpansion * kAbsorbedRank;
  return {std::min(items, kExpandBlocks), ExpandKeysKernel::kThreads, ExpandKeysShared::kBytes,
          2 * (entries + weights + numbers) + to.blocks * ExpandedChunk::kRopeBlockBytes,
          2 * numbers * kAbsorbedRank};
}

}  // namespace janus::kernels::cuda
