#pragma once

// How attention over expanded keys deals a call into launches: as many rows, heads and key blocks
// at a time as the workspace holds. Only speed depends on it, no bit.
//
// If all keys of some heads fit and keep the whole device busy, a task keeps its state in registers
// from its first key to its last. Otherwise keys are taken in chunks, and the workspace also holds
// the states of rows.

#include "common/status.h"
#include "kernels/cuda/expanded_fast.h"
#include "kernels/stream.h"

namespace janus::kernels::cuda {

// Two blocks on each of an H100's or H200's multiprocessors.
inline constexpr int64_t kExpandedBlocks = 2 * 132;
inline constexpr int64_t kMostExpandedRows = 4096;  // at a time
inline constexpr int64_t kLeastChunk = 16;          // key blocks, so that states are little beside

struct ExpandedDeal {
  int64_t rows = 0;    // at a time
  int64_t heads = 0;   // at a time
  int64_t blocks = 0;  // key blocks of a chunk
  int64_t all_blocks = 0;
  int tile = 0;  // rows of a task, at most

  constexpr bool KeepsStates() const { return blocks < all_blocks; }
};

inline constexpr int64_t kExpandedStateBytes = SplitStates{1, kSharedExpansion}.Floats() * 4;

// What `blocks` key blocks of `heads` heads take.
constexpr int64_t ExpandedChunkBytes(int64_t heads, int64_t blocks) {
  return blocks * (heads * ExpandedChunk::kHeadBlockBytes + ExpandedChunk::kRopeBlockBytes);
}

// Key blocks that find room, with the states of so many rows.
constexpr int64_t ExpandedBlocksThatFit(int64_t bytes, int64_t heads, int64_t rows) {
  return (bytes - heads * rows * kExpandedStateBytes) / ExpandedChunkBytes(heads, 1);
}

// What a head and a row need at least, and a key block.
constexpr int64_t ExpandedRowsThatFit(int64_t bytes) {
  const int64_t each = sizeof(ExpandedRun) + sizeof(ExpandedTask) + kExpandedStateBytes;
  return (bytes - ExpandedChunkBytes(1, 1) - 2 * static_cast<int64_t>(sizeof(ExpandedRuns))) / each;
}

// The workspace is that of kernels::ExpandedAttention at least.
inline ExpandedDeal DealExpanded(const ExpandedAttentionArgs& a) {
  ExpandedDeal deal;
  deal.rows = std::min({a.num_rows, kMostExpandedRows, ExpandedRowsThatFit(a.workspace_bytes)});
  deal.all_blocks = a.key_blocks;
  const int64_t bytes = a.workspace_bytes - ExpandedRuns::Bytes(deal.rows);
  const int64_t large = CeilDiv(deal.rows, 128);
  const int64_t wanted = std::min<int64_t>(a.heads, CeilDiv(kExpandedBlocks, large));
  const int64_t whole = bytes / deal.all_blocks - ExpandedChunk::kRopeBlockBytes;
  const int64_t heads_in_whole = whole > 0 ? whole / ExpandedChunk::kHeadBlockBytes : 0;
  if (heads_in_whole >= wanted) {
    deal.heads = std::min<int64_t>(a.heads, heads_in_whole);
    deal.blocks = deal.all_blocks;
  } else {
    deal.heads = wanted;
    while (deal.heads > 1 && ExpandedBlocksThatFit(bytes, deal.heads, deal.rows) < kLeastChunk) {
      deal.heads = CeilDiv(deal.heads, 2);
    }
  }
  deal.heads = CeilDiv(a.heads, CeilDiv(a.heads, deal.heads));  // as many each time
  if (deal.blocks == 0) {
    deal.blocks = std::min(deal.all_blocks, ExpandedBlocksThatFit(bytes, deal.heads, deal.rows));
  }
  deal.tile = large * deal.heads >= kExpandedBlocks / 2 ? 128 : 64;
  return deal;
}

// Where the parts of the workspace lie, in bytes from its start, behind the runs.
struct ExpandedSpace {
  int64_t halves;
  int64_t rope;
  int64_t states;
  constexpr explicit ExpandedSpace(const ExpandedDeal& deal)
      : halves(ExpandedRuns::Bytes(deal.rows)),
        rope(halves + deal.blocks * deal.heads * ExpandedChunk::kHeadBlockBytes),
        states(rope + deal.blocks * ExpandedChunk::kRopeBlockBytes) {}
};

// The fast form, dealt so. The workspace holds what ExpandedSpace says.
Status RunFastExpanded(const Stream& stream, const ExpandedAttentionArgs& args,
                       const ExpandedDeal& deal);

template <int kTileRows>
Plan PlanFastExpanded(const ExpandedDeal& deal) {
  // Rows of several sequences may be a task each; a block that finds none ends after a read.
  return {std::min(deal.rows * deal.heads, kExpandedBlocks),
          FastExpandedKernel<kTileRows>::kThreads, ExpandedShared<kTileRows>::kBytes, 0, 0};
}

// The least bytes: entries of `keys` keys once, expansions, queries and results.
inline int64_t ExpandedAttentionBytes(const ExpandedAttentionArgs& a, int64_t keys) {
  const int64_t expanded = int64_t{a.nope_dim} + a.value_dim;
  return keys * (int64_t{a.cache.rank} + a.cache.rope) * SizeOf(a.cache.dtype) +
         a.heads * expanded * a.cache.rank * SizeOf(a.expand_dtype) +
         a.num_rows * a.heads *
             ((int64_t{a.nope_dim} + a.cache.rope) * 4 + a.value_dim * SizeOf(a.y_dtype));
}
// Of rows that together see `seen` keys, `keys` different ones, which are expanded once.
inline int64_t ExpandedAttentionFlops(const ExpandedAttentionArgs& a, int64_t seen, int64_t keys) {
  const int64_t attended = seen * (int64_t{a.nope_dim} + a.cache.rope + a.value_dim);
  const int64_t expanded = keys * a.cache.rank * (int64_t{a.nope_dim} + a.value_dim);
  return 2 * a.heads * (attended + expanded);
}

}  // namespace janus::kernels::cuda
