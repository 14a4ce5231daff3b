#pragma once

// Attention in the latent space over a cache of bfloat16 or fp8 with the tensor cores, for few rows
// a sequence. A block of threads takes up to 64 columns over one split of the keys: heads of a row,
// or of a run of rows if heads are few. A key is 576 numbers, and the first 512 are its value too.
// So it is read once into shared memory and multiplied twice: as the 16-row operand by the queries,
// then, turned, by the weights. For 16 heads that read is the limit, for 64 and more the
// multiplication. A second launch merges splits. Specification: ../reference/absorbed_attention.cc
//
// Asynchronous copies bring 64 keys at a time, 72 KiB, while those before are multiplied. Four of
// the eight warps score them, in pieces of 32 keys by 32 columns that read little of shared memory;
// the other four start the copies. Then each of the eight adds up its 64 of the 512 values. Weights
// take the place of the rope parts of their keys, which are no longer needed.
//
// In fp8, 64 keys are copied as they lie, 41 KiB, while those before are multiplied. Then all warps
// convert them, exactly, to the bfloat16 for the same multiplications; scales are powers of 2. The
// bits are those of a bfloat16 cache of the same numbers.
//
// The rules of paged attention fix the bits of a row (attention_fast.h). A score adds first the
// latent part, then the rope part, each from first to last.

#include <cmath>

#include "kernels/cuda/attention_columns.h"
#include "kernels/cuda/attention_merge.h"
#include "kernels/cuda/attention_tasks.h"
#include "kernels/cuda/element.h"
#include "kernels/cuda/stages.h"
#include "kernels/cuda/tensor.h"

namespace janus::kernels::cuda {

inline constexpr int kAbsorbedColumns = 64;  // of a tile

// Heads of a row that share a tile, and how many such tiles its heads are.
struct HeadTiles {
  int heads = 0;
  int tiles = 0;
};
constexpr HeadTiles HeadTilesOf(int heads) {
  return heads <= kAbsorbedColumns ? HeadTiles{heads, 1}
                                   : HeadTiles{kAbsorbedColumns, heads / kAbsorbedColumns};
}
constexpr AttendingRows RowsOf(const AbsorbedAttentionArgs& a) {
  return {a.rows, static_cast<int>(a.num_rows), 0, kAbsorbedColumns / HeadTilesOf(a.heads).heads};
}
constexpr MergedRows MergedRowsOf(const AbsorbedAttentionArgs& a, int64_t states) {
  return {.of = RowsOf(a),
          .at = {a.heads, kAbsorbedRank},
          .workspace = static_cast<const float*>(a.workspace),
          .states = states,
          .y = a.y};
}

// Where rope queries lie.
struct RopeQueries {
  int64_t head_stride;
  int64_t row_stride;
  constexpr explicit RopeQueries(const AbsorbedAttentionArgs& a)
      : head_stride(a.rope_query_head_stride != 0 ? a.rope_query_head_stride : kAbsorbedRope),
        row_stride(a.rope_query_row_stride != 0 ? a.rope_query_row_stride : a.heads * head_stride) {
  }
};

// What it has in shared memory, in bytes from its start.
template <int kBits>
struct AbsorbedShared {
  static constexpr int kEntry = kAbsorbedRank + kAbsorbedRope;
  static constexpr int kRowBytes = 2 * kEntry;  // of a key or a query, bfloat16
  static constexpr int kColumns = kAbsorbedColumns;
  static constexpr int kUnitBytes = kKeyBlock * kRowBytes;
  static constexpr int kUnits = kBits == 8 ? 1 : 2;
  // A unit of fp8 as it lies in the cache.
  static constexpr int kPacked = kUnits * kUnitBytes;
  static constexpr int kPackedBytes =
      kBits == 8
          ? kKeyBlock *
                static_cast<int>(LatentEntryBytes(DType::kFloat8E4M3, kAbsorbedRank, kAbsorbedRope))
          : 0;
  static constexpr int kQueries = kPacked + kPackedBytes;              // [column]
  static constexpr int kLargest = kQueries + kColumns * kRowBytes;     // [page][column]
  static constexpr int kSums = kLargest + 4 * kBlockPages * kColumns;  // [page][column]
  static constexpr int kSees = kSums + 4 * kBlockPages * kColumns;     // [column] RowKeys
  static constexpr int kColumn = kSees + kColumns * 8;                 // [column] of a split
  static constexpr int kMerged = kColumn + kColumns * 8;               // [column]
  static constexpr int kPages = kMerged + kColumns * 8;                // [64]
  static constexpr int kTask = kPages + 4 * (kKeySplit / kPageTokens);
  static constexpr int kTasks = kTask + 64;
  static constexpr int64_t kBytes = kTasks + static_cast<int64_t>(sizeof(AttentionTasks));
  static_assert(sizeof(AttentionTasks::Scratch) <= kQueries && kSees % 16 == 0 &&
                kTasks % alignof(AttentionTasks) == 0);
  // Weights, 2 bytes for each column, lie where a key's rope part lay.
  static_assert(kColumns <= kAbsorbedRope);
};

// Block per (task, tile of heads), tiles first, so that those of a row read its keys at about the
// same time; it takes every blocks()-th.
template <int kBits>
struct FastAbsorbedKernel {
  using Shared = AbsorbedShared<kBits>;
  static constexpr bool kIsScaled = kBits == 8;
  static constexpr DType kType = kIsScaled ? DType::kFloat8E4M3 : DType::kBFloat16;
  static constexpr int kEntryBytes =
      static_cast<int>(LatentEntryBytes(kType, kAbsorbedRank, kAbsorbedRope));
  static constexpr int kPageBytes = kPageTokens * kEntryBytes;
  static constexpr int kThreads = 256;
  static constexpr int kBlocksAtOnce = 1;
  static constexpr int64_t kAskedSharedBytes = Shared::kBytes;
  static constexpr int kWarps = kThreads / kLanes;
  static constexpr int kScoreWarps = kWarps / 2;
  static constexpr int kTiles = kAbsorbedRank / (16 * kWarps);  // of 16 values, of a warp
  static constexpr int kRowChunks = Shared::kRowBytes / kCopyBytes;
  using Columns = AttentionColumns<Shared, kThreads, kTiles>;
  using Column = AttentionColumn;
  template <int N>
  using Values = typename Columns::template Values<N>;
  static_assert(kEntryBytes % kCopyBytes == 0);
  static_assert(kWarps - kScoreWarps == kBlockPages && kRowChunks % 8 == 0);

  AbsorbedAttentionArgs a;  // at most kTaskRows rows
  int64_t states = 0;       // rows and splits that the workspace has room for

  // What a warp scores of 64 keys by N columns.
  template <int N>
  struct Piece {
    static constexpr int kPages = N == 64 ? 2 : 1;
    static constexpr int kColumns8 = N == 16 ? 2 : 4;
    static_assert(kPages * kColumns8 * kScoreWarps == kBlockPages * N / 8);
    JANUS_DEVICE static int Page(int warp) { return kPages == 2 ? warp / 2 * 2 : warp; }
    JANUS_DEVICE static int Column8(int warp) { return kPages == 2 ? warp % 2 * kColumns8 : 0; }
  };
  template <int N>
  struct Scores {
    float of[Piece<N>::kPages][Piece<N>::kColumns8][4] = {};  // rows are keys
  };

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    auto& tasks = *reinterpret_cast<AttentionTasks*>(block.shared() + Shared::kTasks);
    const AttendingRows of = RowsOf(a);
    const HeadTiles tile = HeadTilesOf(a.heads);
    tasks.Find(block, of, states, *reinterpret_cast<AttentionTasks::Scratch*>(block.shared()));
    const int64_t count = int64_t{block.Uniform(tasks.task[of.count])} * tile.tiles;
    JANUS_KEEP_LOOP
    for (int64_t i = block.index(); i < count; i += block.blocks()) {
      const AttentionTask task =
          tasks.TaskOf(block, of, static_cast<int>(i / tile.tiles),
                       *reinterpret_cast<AttentionTask*>(block.shared() + Shared::kTask));
      const auto g = static_cast<int>(i % tile.tiles);
      const int columns = task.rows * tile.heads;
      if (columns <= 16) {
        Run<16>(block, tasks, task, g);
      } else if (columns <= 32) {
        Run<32>(block, tasks, task, g);
      } else {
        Run<64>(block, tasks, task, g);
      }
    }
  }

 private:
  template <int N, class Block>
  JANUS_DEVICE void Run(Block& block, const AttentionTasks& tasks, const AttentionTask& task,
                        int g) const {
    PerThread<Values<N>, kThreads> values;
    JANUS_KEEP_LOOP
    for (int32_t s = task.first_split; s <= task.last_split; ++s) {
      Split<N>(block, task, g, s, values);
      if (task.is_split) {
        Columns::template StoreState<N>(block, tasks, task, HeadTilesOf(a.heads).heads, g, s,
                                        {a.heads, kAbsorbedRank}, static_cast<float*>(a.workspace),
                                        values);
      } else {
        MergeSplit<N>(block, task, g, s, values);
      }
    }
  }

  // Where the 16-byte chunks of a key or a query lie: permuted so that the 8 rows of a matrix are
  // in banks of their own.
  JANUS_DEVICE static int Offset(int row, int chunk) {
    return row * Shared::kRowBytes + (chunk ^ (row % 8)) * kCopyBytes;
  }
  // Of a weight for 8 columns, in the key's unit.
  JANUS_DEVICE static int WeightOffset(int column8, int key) {
    return Offset(key, kAbsorbedRank / kChunk + column8);
  }

  // Rounded, and what each sees. Columns beyond the run's are zeros that see nothing.
  template <int N, class Block>
  JANUS_DEVICE void LoadQueries(Block& block, const AttentionTask& task, int g) const {
    const int group = HeadTilesOf(a.heads).heads;
    const RopeQueries rope(a);
    block.Phase([&](int thread) {
      JANUS_KEEP_LOOP
      for (int i = thread; i < N * kRowChunks; i += kThreads) {
        const int c = i / kRowChunks;
        const int d = i % kRowChunks * kChunk;
        const int64_t row = task.row + c / group;
        const int64_t head = int64_t{g} * group + c % group;
        const float* const q = d < kAbsorbedRank
                                   ? a.latent_queries + (row * a.heads + head) * kAbsorbedRank + d
                                   : a.rope_queries + row * rope.row_stride +
                                         head * rope.head_stride + (d - kAbsorbedRank);
        MoveRounded(block.shared() + Shared::kQueries + Offset(c, d / kChunk), q,
                    c < task.rows * group);
      }
      if (thread < N) {
        Columns::ColumnsOf(block.shared(), Shared::kMerged)[thread] = Column{};
        Columns::SeesOf(block.shared())[thread] =
            thread < task.rows * group ? KeysOf(a.rows[task.row + thread / group].position, 0)
                                       : RowKeys{0, -1};
      }
    });
  }

  // The state of a split of the run's keys.
  template <int N, class Block>
  JANUS_DEVICE void Split(Block& block, const AttentionTask& task, int g, int32_t s,
                          PerThread<Values<N>, kThreads>& values) const {
    const int32_t begin = s * kKeySplit;
    const int last = task.highest - begin < kKeySplit - 1 ? task.highest - begin : kKeySplit - 1;
    const int key_blocks = last / kKeyBlock + 1;
    auto* const pages = reinterpret_cast<int32_t*>(block.shared() + Shared::kPages);
    block.Phase([&](int thread) {
      values[thread] = Values<N>{};
      if (thread < N) Columns::ColumnsOf(block.shared(), Shared::kColumn)[thread] = Column{};
      if (thread >= kKeySplit / kPageTokens) return;
      pages[thread] =
          thread <= last / kPageTokens ? task.block_table[begin / kPageTokens + thread] : kNoPage;
    });
    block.template CopyingWarps<1>([&](auto& warp) {
      if (warp.index() >= kScoreWarps) Fill(block, warp, 0);
    });
    if (s == task.first_split) LoadQueries<N>(block, task, g);
    block.template CopyingWarps<0>([](auto&) {});
    JANUS_KEEP_LOOP
    for (int key_block = 0; key_block < key_blocks; ++key_block) {
      const int32_t j0 = begin + key_block * kKeyBlock;
      const bool all_see = task.AllSee(j0, kKeyBlock);
      unsigned char* const unit = UnitOf(block, key_block);
      if constexpr (kIsScaled) {
        block.Warps([&](auto& warp) { Unpack(block, warp, unit); });
      }
      PerThread<Scores<N>, kThreads> scores;  // if it lived longer, registers would not suffice
      // Fills the unit that was read before the last barrier.
      block.template CopyingWarps<1>([&](auto& warp) {
        if (warp.index() < kScoreWarps) {
          Score<N>(block, warp, unit, j0, all_see, scores);
        } else if (key_block + 1 < key_blocks) {
          Fill(block, warp, key_block + 1);
        }
      });
      block.Warps([&](auto& warp) {
        Fade<N>(block, warp, values);
        if (warp.index() < kScoreWarps) Weigh<N>(block, warp, unit, scores);
      });
      // Waits for the copies that were started above.
      block.template CopyingWarps<0>([&](auto& warp) {
        Columns::template AddSums<N>(block, warp);
        const auto load_values = [&](int key, int m, auto to) {
          const int chunk = (warp.index() * kTiles + m) * 2;
          LoadTransposed(warp, to, [&](int lane) {
            return unit + Offset(key + lane / 16 * 8 + lane % 8, chunk + lane / 8 % 2);
          });
        };
        const auto load_weights = [&](int key, int n, auto to) {
          LoadTransposed(warp, to, [&](int lane) {
            return unit + WeightOffset(n + lane / 16, key + lane / 8 % 2 * 8 + lane % 8);
          });
        };
        if (all_see) {
          Columns::template AddValues<N>(warp, values, load_values, load_weights);
        } else {
          Columns::template AddSeenValues<N>(block, warp, task.rows, HeadTilesOf(a.heads).heads, j0,
                                             values, load_values, load_weights);
        }
      });
    }
  }

  template <class Block>
  JANUS_DEVICE static unsigned char* UnitOf(Block& block, int key_block) {
    return block.shared() + key_block % Shared::kUnits * Shared::kUnitBytes;
  }

  // Copies key block `key_block` of the split, a page by each of the last four warps. Keys that no
  // row sees are zeros.
  template <class Block, class Warp>
  JANUS_DEVICE void Fill(Block& block, Warp& warp, int key_block) const {
    const int64_t stride = a.cache.page_stride_bytes != 0
                               ? a.cache.page_stride_bytes
                               : LatentPageBytes(kType, kAbsorbedRank, kAbsorbedRope);
    const int of_block = warp.index() - kScoreWarps;
    const auto* const pages = reinterpret_cast<const int32_t*>(block.shared() + Shared::kPages);
    const int32_t page = pages[key_block * kBlockPages + of_block];
    const bool is_read = page != kNoPage;
    const auto* const from =
        static_cast<const unsigned char*>(a.cache.pages) + (is_read ? page : 0) * stride;
    unsigned char* const to =
        kIsScaled ? block.shared() + Shared::kPacked + of_block * kPageBytes
                  : UnitOf(block, key_block) + of_block * kPageTokens * Shared::kRowBytes;
    // Where a chunk of a page lies: of fp8 as in the cache.
    const auto offset = [](int chunk) {
      return kIsScaled ? chunk * kCopyBytes : Offset(chunk / kRowChunks, chunk % kRowChunks);
    };
    const bool can_copy =
        reinterpret_cast<uintptr_t>(a.cache.pages) % kCopyBytes == 0 && stride % kCopyBytes == 0;
    warp.Lanes([&](int lane) {
      if (can_copy) {
        constexpr int kRounds = kIsScaled ? 1 : kPageTokens;
        constexpr int kOfRound = kPageBytes / kCopyBytes / kRounds;
        JANUS_KEEP_LOOP
        for (int round = 0; round < kRounds; ++round) {
          JANUS_UNROLL
          for (int i = lane; i < kOfRound; i += kLanes) {
            const int chunk = round * kOfRound + i;
            block.CopyAsync(to + offset(chunk), from + chunk * kCopyBytes, is_read);
          }
        }
      } else {
        JANUS_KEEP_LOOP
        for (int i = lane; i < kPageBytes / 2; i += kLanes) {
          auto* const at = reinterpret_cast<uint16_t*>(to + offset(i / kChunk));
          at[i % kChunk] = is_read ? reinterpret_cast<const uint16_t*>(from)[i] : uint16_t{0};
        }
      }
    });
  }

  // The keys of a unit of fp8 as bfloat16. A warp goes over whole keys, 8 elements to a lane at a
  // time, then over the rope parts of four.
  template <class Block, class Warp>
  JANUS_DEVICE static void Unpack(Block& block, Warp& warp, unsigned char* unit) {
    struct alignas(kCopyBytes) Chunk {
      uint32_t of[kChunk / 2];
    };
    struct alignas(8) Packed {
      uint32_t of[2];
    };
    constexpr int kOfWarp = kKeyBlock / kWarps;
    const unsigned char* const packed =
        block.shared() + Shared::kPacked + warp.index() * kOfWarp * kEntryBytes;
    const int first = warp.index() * kOfWarp;
    warp.Lanes([&](int lane) {
      JANUS_KEEP_LOOP
      for (int key = 0; key < kOfWarp; ++key) {
        const unsigned char* const entry = packed + key * kEntryBytes;
        JANUS_UNROLL
        for (int chunk = lane; chunk < kAbsorbedRank / kChunk; chunk += kLanes) {
          const auto eight = *reinterpret_cast<const Packed*>(entry + chunk * kChunk);
          const auto scale = *reinterpret_cast<const uint32_t*>(
              entry + LatentScalesAt(kAbsorbedRank) + chunk * kChunk / kScaleBlock * 4);
          const uint32_t by = scale >> 16 | (scale & 0xFFFF0000u);  // a power of 2, or NaN
          Chunk to;
          JANUS_UNROLL
          for (int i = 0; i < 2; ++i) {
            to.of[2 * i] = TimesHalves(BFloat16OfFloat8(SpreadBytes<0, 1>(eight.of[i])), by);
            to.of[2 * i + 1] = TimesHalves(BFloat16OfFloat8(SpreadBytes<2, 3>(eight.of[i])), by);
          }
          *reinterpret_cast<Chunk*>(unit + Offset(first + key, chunk)) = to;
        }
      }
      constexpr int kRopeChunks = kAbsorbedRope / kChunk;
      JANUS_UNROLL
      for (int i = lane; i < kOfWarp * kRopeChunks; i += kLanes) {
        const int key = i / kRopeChunks;
        const int chunk = i % kRopeChunks;
        *reinterpret_cast<Chunk*>(unit + Offset(first + key, kAbsorbedRank / kChunk + chunk)) =
            *reinterpret_cast<const Chunk*>(packed + key * kEntryBytes +
                                            LatentRopeAt(kAbsorbedRank) + chunk * kCopyBytes);
      }
    });
  }

  // The scores of a warp's piece, and the largest of each column and page of it.
  template <int N, class Block, class Warp>
  JANUS_DEVICE void Score(Block& block, Warp& warp, const unsigned char* unit, int32_t j0,
                          bool all_see, PerThread<Scores<N>, kThreads>& scores) const {
    using Of = Piece<N>;
    struct Fragments {
      uint32_t keys[Of::kPages][4];
      uint32_t queries[4];  // of two blocks of 8 columns
    };
    unsigned char* const shared = block.shared();
    const int first_lane = warp.index() * kLanes;
    const int page = Of::Page(warp.index());
    const int column8 = Of::Column8(warp.index());
    warp.Lanes([&](int lane) { scores[first_lane + lane] = Scores<N>{}; });
    PerLane<Fragments> of;
    JANUS_KEEP_LOOP
    for (int begin = 0; begin < kRowChunks; begin += 8) {
      JANUS_UNROLL
      for (int chunk = 0; chunk < 8; chunk += 2) {
        JANUS_UNROLL
        for (int p = 0; p < Of::kPages; ++p) {
          LoadMatrices(
              warp, [&](int lane) -> uint32_t(&)[4] { return of[lane].keys[p]; },
              [&](int lane) {
                return unit + Offset((page + p) * kPageTokens + lane / 8 % 2 * 8 + lane % 8,
                                     begin + chunk + lane / 16);
              });
        }
        JANUS_UNROLL
        for (int n = 0; n < Of::kColumns8; n += 2) {
          LoadMatrices(
              warp, [&](int lane) -> uint32_t(&)[4] { return of[lane].queries; },
              [&](int lane) {
                return shared + Shared::kQueries +
                       Offset(8 * (column8 + n + lane / 16) + lane % 8,
                              begin + chunk + lane / 8 % 2);
              });
          JANUS_UNROLL
          for (int p = 0; p < Of::kPages; ++p) {
            JANUS_UNROLL
            for (int i = 0; i < 2; ++i) {
              MultiplyAdd(
                  warp,
                  [&](int lane) -> float(&)[4] { return scores[first_lane + lane].of[p][n + i]; },
                  [&](int lane) -> const uint32_t* { return of[lane].keys[p]; },
                  [&](int lane) -> const uint32_t* { return of[lane].queries + 2 * i; });
            }
          }
        }
      }
    }
    JANUS_UNROLL
    for (int p = 0; p < Of::kPages; ++p) {
      const int32_t page_begin = j0 + (page + p) * kPageTokens;
      warp.Lanes([&](int lane) {
        JANUS_UNROLL
        for (int n = 0; n < Of::kColumns8; ++n) {
          JANUS_UNROLL
          for (int i = 0; i < 4; ++i) {
            float& score = scores[first_lane + lane].of[p][n][i];
            score *= a.scale;
            if (all_see) continue;
            const int32_t key = page_begin + lane / 4 + i / 2 * 8;
            const int column = Columns::ColumnOf(lane, column8 + n, i);
            if (!Columns::SeesOf(shared)[column].Sees(key)) score = Columns::kNone;
          }
        }
      });
      Columns::template ReduceColumns<8 * Of::kColumns8>(
          warp, Columns::Floats(shared, Shared::kLargest) + (page + p) * N + 8 * column8,
          [&](int lane, int n, int i) {
            const auto& score = scores[first_lane + lane].of[p][n];
            return fmaxf(score[i], score[i + 2]);
          },
          [](float mine, float theirs) { return fmaxf(mine, theirs); });
    }
  }

  // The values so far, by what the block's scores make of the largest.
  template <int N, class Block, class Warp>
  JANUS_DEVICE static void Fade(Block& block, Warp& warp, PerThread<Values<N>, kThreads>& values) {
    warp.Lanes([&](int lane) {
      Values<N>& value = values[warp.index() * kLanes + lane];
      JANUS_UNROLL
      for (int n = 0; n < N / 8; ++n) {
        JANUS_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int column = Columns::ColumnOf(lane, n, i);
          const float fade =
              Columns::FadeOf(block, column, Columns::template LargestOf<N>(block, column));
          JANUS_UNROLL
          for (int m = 0; m < kTiles; ++m) {
            value.of[m][n][i] *= fade;
            value.of[m][n][i + 2] *= fade;
          }
        }
      }
    });
  }

  // A piece's scores to weights, which go to the unit with their sums.
  template <int N, class Block, class Warp>
  JANUS_DEVICE static void Weigh(Block& block, Warp& warp, unsigned char* unit,
                                 PerThread<Scores<N>, kThreads>& scores) {
    using Of = Piece<N>;
    const int first_lane = warp.index() * kLanes;
    const int page = Of::Page(warp.index());
    const int column8 = Of::Column8(warp.index());
    warp.Lanes([&](int lane) {
      JANUS_UNROLL
      for (int n = 0; n < Of::kColumns8; ++n) {
        const float largest[2] = {
            Columns::template LargestOf<N>(block, Columns::ColumnOf(lane, column8 + n, 0)),
            Columns::template LargestOf<N>(block, Columns::ColumnOf(lane, column8 + n, 1))};
        JANUS_UNROLL
        for (int p = 0; p < Of::kPages; ++p) {
          JANUS_UNROLL
          for (int half = 0; half < 2; ++half) {
            uint32_t pair = 0;  // of a key, of two columns
            JANUS_UNROLL
            for (int i = 0; i < 2; ++i) {
              float& of = scores[first_lane + lane].of[p][n][i + 2 * half];
              const uint16_t weight =
                  of == Columns::kNone ? uint16_t{0} : ToBFloat16(expf(of - largest[i]));
              of = FromBFloat16(weight);
              pair |= uint32_t{weight} << (16 * i);
            }
            const int key = (page + p) * kPageTokens + lane / 4 + 8 * half;
            *reinterpret_cast<uint32_t*>(unit + WeightOffset(column8 + n, key) + lane % 4 * 4) =
                pair;
          }
        }
      }
    });
    JANUS_UNROLL
    for (int p = 0; p < Of::kPages; ++p) {
      Columns::template ReduceColumns<8 * Of::kColumns8>(
          warp, Columns::Floats(block.shared(), Shared::kSums) + (page + p) * N + 8 * column8,
          [&](int lane, int n, int i) {
            const auto& weight = scores[first_lane + lane].of[p][n];
            return weight[i] + weight[i + 2];
          },
          [](float mine, float theirs) { return mine + theirs; });
    }
  }

  // Adds a split to those before it, for rows that see any of it. The merged values are kept in y,
  // because the registers hold only one state. After a row's last split they are its results.
  template <int N, class Block>
  JANUS_DEVICE void MergeSplit(Block& block, const AttentionTask& task, int g, int32_t s,
                               PerThread<Values<N>, kThreads>& values) const {
    Column* const merged_n = Columns::ColumnsOf(block.shared(), Shared::kMerged);
    const Column* const split_n = Columns::ColumnsOf(block.shared(), Shared::kColumn);
    block.Phase([&](int thread) {
      Columns::template ForColumns<N>(
          task, HeadTilesOf(a.heads).heads, g, thread, [&](int n, int i, int r, int64_t head) {
            const int column = Columns::ColumnOf(thread % kLanes, n, i);
            const RowKeys sees = Columns::SeesOf(block.shared())[column];
            if (!sees.SeesAnyOf(s * kKeySplit, kKeySplit)) return;
            const MergeWeights w = WeighMerge(merged_n[column].largest, split_n[column].largest);
            const float total = Merge(w, merged_n[column].total, split_n[column].total);
            float* const y = a.y + ((int64_t{task.row} + r) * a.heads + head) * kAbsorbedRank;
            Columns::ForElements(thread, i, [&](int d, int m, int j) {
              const float before = s == sees.FirstSplit() ? 0.0f : y[d];
              const float merged = Merge(w, before, values[thread].of[m][n][j]);
              y[d] = s == sees.LastSplit() ? merged / total : merged;
            });
          });
    });
    // Not earlier: all threads have used the old state for their weights now.
    block.Phase([&](int thread) {
      if (thread >= N ||
          !Columns::SeesOf(block.shared())[thread].SeesAnyOf(s * kKeySplit, kKeySplit)) {
        return;
      }
      Column& of = merged_n[thread];
      const MergeWeights w = WeighMerge(of.largest, split_n[thread].largest);
      of = {w.largest, Merge(w, of.total, split_n[thread].total)};
    });
  }
};

// One block on each of an H100's or H200's multiprocessors.
inline constexpr int64_t kAbsorbedBlocks = 132;

// `states`: rows and splits that the workspace has room for. No more blocks than there can be
// tasks.
template <int kBits>
inline Plan PlanFastAbsorbed(const AbsorbedAttentionArgs& a, int64_t states) {
  const int64_t tasks = (a.num_rows + states) * HeadTilesOf(a.heads).tiles;
  return {std::min(tasks, kAbsorbedBlocks), FastAbsorbedKernel<kBits>::kThreads,
          AbsorbedShared<kBits>::kBytes, 0, 0};
}

}  // namespace janus::kernels::cuda
