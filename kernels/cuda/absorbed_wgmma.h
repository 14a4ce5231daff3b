#pragma once

// Attention in the latent space on sm_90a for models of 64 heads and more, where multiplication is
// the limit. Two warpgroups of a block take 64 heads of one row, as the 64-row operand of wgmma,
// over one split of the keys. A key block is 64 keys, read once into shared memory and multiplied
// twice: queries by its 64 columns of 576, then weights by its rows of 512 (TurnedMatrix).
// Specification: ../reference/absorbed_attention.cc
//
// The plan is FlashMLA's (DeepSeek, "seesaw"): each of two warpgroups keeps 256 of the 512 columns
// of sums. One scores even key blocks, the other odd ones. Weights, which both need, lie in shared
// memory, in place of a part of their key block. Order and steps differ from FlashMLA: barriers
// here are those of a whole block of threads, so work and copies are cut into three steps a key
// block, and both warpgroups add values in the order of the keys.
//
//   step        the scorer of key block n            both, or the other            copies start
//   3n + 2      first third of the scores            fade, values of n - 1         last third of n
//   3n + 3      second third                                                       first of n + 1
//   3n + 4      last third; largest, weights                                       second of n + 1
//
// A third of a key block is 64 keys by 192 elements, 24 KiB. Copies of one or two thirds are in
// flight at all times; those of a step's operands started two steps earlier. There are two units of
// 72 KiB. Key block n + 1 is copied into the unit of n - 1 once that block's values have been
// added. Fading the sums and starting copies run beside the products of a step. Nothing hides the
// softmax.
//
// The rope part is scored first, so that all warps have read it when weights take its place.
//
// In fp8 a third is 12 KiB. Each thread reads 48 elements into registers in the step in which
// copies of bfloat16 would start, converts them, exactly (absorbed_fast.h), and stores them in the
// next step. So the data is at the same place at the same time, and the bits are those of a
// bfloat16 cache of the same numbers.
//
// The rules of paged attention fix the bits of a row (attention_fast.h), with two changes. A score
// adds first the rope part, then the latent part, each from first to last. Scores stay unscaled:
// the weight of a score s under the largest score m is 2^((s - m) c) for c = scale log2(e), each
// step rounded, and sums fade by the same function. It takes a third of the instructions of expf.
// The difference is taken first, so that no finite score becomes infinite on the way. A tile is of
// one row, so keys that the row does not see are zeros in shared memory.

#include <cmath>

#include "kernels/cuda/absorbed_fast.h"
#include "kernels/cuda/wgmma.h"

namespace janus::kernels::cuda {

// 2^x; below the normal numbers a GPU has 0.
JANUS_DEVICE inline float PowerOf2(float x) {
#ifdef __CUDACC__
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  return std::exp2(x);
#endif
}
// Both rounded to bfloat16, the first in the lower bits.
JANUS_DEVICE inline uint32_t RoundedPair(float first, float second) {
#ifdef __CUDACC__
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#else
  return uint32_t{ToBFloat16(first)} | uint32_t{ToBFloat16(second)} << 16;
#endif
}

// What it has in shared memory, in bytes from its start. A unit, and the queries, are pieces of 64
// rows by 64 elements: rank first, then rope.
struct AbsorbedWgmmaShared {
  static constexpr int kPieceElements = kSwizzledRow / 2;
  static constexpr int kPieces = (kAbsorbedRank + kAbsorbedRope) / kPieceElements;
  static constexpr int kRopePiece = kPieces - 1;
  static constexpr int kPieceBytes = kKeyBlock * kSwizzledRow;
  static constexpr int kUnitBytes = kPieces * kPieceBytes;
  static constexpr int kUnits = 2;
  static constexpr int kQueries = kUnits * kUnitBytes;
  static constexpr int kColumn = kQueries + kUnitBytes;           // [column] of a split
  static constexpr int kMerged = kColumn + kAbsorbedColumns * 8;  // [column]
  static constexpr int kFades = kMerged + kAbsorbedColumns * 8;   // [column] float
  static constexpr int kPages = kFades + kAbsorbedColumns * 4;    // [64]
  static constexpr int kTask = kPages + 4 * (kKeySplit / kPageTokens);
  static constexpr int kTasks = kTask + 64;
  static constexpr int64_t kBytes = kTasks + static_cast<int64_t>(sizeof(AttentionTasks));
  static_assert(kAbsorbedRope == kPieceElements && kAbsorbedColumns == kWgmmaOutputs &&
                kKeyBlock == kPieceElements);
  static_assert(kPieceBytes % kSharedAlignment == 0 && kTask % 16 == 0 &&
                sizeof(AttentionTasks::Scratch) <= kQueries &&
                kTasks % alignof(AttentionTasks) == 0);
};

// Block per (task, 64 heads), heads first; it takes every blocks()-th. Heads are a multiple of 64.
template <int kBits>
struct WgmmaAbsorbedKernel {
  using Shared = AbsorbedWgmmaShared;
  static constexpr bool kIsScaled = kBits == 8;
  static constexpr DType kType = kIsScaled ? DType::kFloat8E4M3 : DType::kBFloat16;
  static constexpr int kEntryBytes =
      static_cast<int>(LatentEntryBytes(kType, kAbsorbedRank, kAbsorbedRope));
  static constexpr int kGroups = 2;
  static constexpr int kThreads = kGroups * kGroupThreads;
  static constexpr int kBlocksAtOnce = 1;
  static constexpr int64_t kAskedSharedBytes = Shared::kBytes;
  static constexpr int kWidth = kAbsorbedRank / kGroups;  // values of a warpgroup
  static constexpr int kThird = Shared::kPieces / 3;      // pieces
  static constexpr float kNone = -INFINITY;
  static constexpr float kLog2E = 1.44269504f;
  using Column = AttentionColumn;
  static_assert(Shared::kPieces % 3 == 0 && kEntryBytes % kCopyBytes == 0);

  AbsorbedAttentionArgs a;  // at most kTaskRows rows
  int64_t states = 0;       // rows and splits that the workspace has room for

  // A thread's parts of the products (wgmma.h): rows are heads.
  struct Values {
    float of[kWidth / 2];
  };
  struct Scores {
    float of[kKeyBlock / 2];
  };
  // What a thread brings of a third of a key block in fp8, as it lies: of a key 16 elements of each
  // piece, and the scale of these.
  struct Packed {
    uint32_t of[kThird][4] = {};
    uint32_t scale[kThird] = {};
  };
  // Of its two rows.
  struct Rows {
    float of[2];
  };
  struct PageSums {
    float of[2][kBlockPages];
  };
  struct State {
    PerThread<Values, kThreads> values;
    PerThread<Scores, kThreads> scores;
    PerThread<Packed, kThreads> packed;
  };
  // Of a split.
  struct Keys {
    int count;   // of which the row sees all
    int blocks;  // that have any
  };

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    auto& tasks = *reinterpret_cast<AttentionTasks*>(block.shared() + Shared::kTasks);
    const AttendingRows of = RowsOf(a);
    const int tiles = HeadTilesOf(a.heads).tiles;
    tasks.Find(block, of, states, *reinterpret_cast<AttentionTasks::Scratch*>(block.shared()));
    const int64_t count = int64_t{block.Uniform(tasks.task[of.count])} * tiles;
    State state;
    JANUS_KEEP_LOOP
    for (int64_t i = block.index(); i < count; i += block.blocks()) {
      const AttentionTask task =
          tasks.TaskOf(block, of, static_cast<int>(i / tiles),
                       *reinterpret_cast<AttentionTask*>(block.shared() + Shared::kTask));
      const auto g = static_cast<int>(i % tiles);
      JANUS_KEEP_LOOP
      for (int32_t s = task.first_split; s <= task.last_split; ++s) {
        Split(block, task, g, s, state);
        if (task.is_split) {
          StoreState(block, int64_t{tasks.state[task.row]} + s, g, state);
        } else {
          MergeSplit(block, task, g, s, state);
        }
      }
    }
  }

 private:
  template <class Block>
  JANUS_DEVICE static Column* ColumnsOf(Block& block, int at) {
    return reinterpret_cast<Column*>(block.shared() + at);
  }
  template <class Block>
  JANUS_DEVICE static float* FadesOf(Block& block) {
    return reinterpret_cast<float*>(block.shared() + Shared::kFades);
  }
  template <class Block>
  JANUS_DEVICE static unsigned char* UnitOf(Block& block, int key_block) {
    return block.shared() + key_block % Shared::kUnits * Shared::kUnitBytes;
  }
  // In the order in which a score adds them.
  JANUS_DEVICE static constexpr int PieceOf(int third, int i) {
    return (third * kThird + i + Shared::kPieces - 1) % Shared::kPieces;
  }
  // The first of the two rows of a thread's products; the other is 8 below.
  JANUS_DEVICE static int RowOf(int thread) {
    return thread % kGroupThreads / kLanes * 16 + thread % kLanes / 4;
  }
  // Column of element i, without i % 2.
  JANUS_DEVICE static int ColumnOf(int thread, int i) { return i / 4 * 8 + thread % 4 * 2; }

  // The state of a split of the row's keys.
  template <class Block>
  JANUS_DEVICE void Split(Block& block, const AttentionTask& task, int g, int32_t s,
                          State& state) const {
    const int32_t begin = s * kKeySplit;
    Keys keys;
    keys.count = task.highest - begin < kKeySplit ? task.highest - begin + 1 : kKeySplit;
    keys.blocks = (keys.count + kKeyBlock - 1) / kKeyBlock;
    block.Phase([&](int thread) {
      if (thread < kAbsorbedColumns) ColumnsOf(block, Shared::kColumn)[thread] = Column{};
      if (thread >= kKeySplit / kPageTokens) return;
      reinterpret_cast<int32_t*>(block.shared() + Shared::kPages)[thread] =
          thread * kPageTokens < keys.count ? task.block_table[begin / kPageTokens + thread]
                                            : kNoPage;
    });
    block.template CopyingGroups<1>(
        [&](auto& group) { Bring(block, group, keys, 0, 0, state.packed); });
    block.template CopyingGroups<1>([&](auto& group) {
      Bring(block, group, keys, 0, 1, state.packed);
      if (s == task.first_split) LoadQueries(block, group, task, g);
    });
    JANUS_KEEP_LOOP
    for (int n = 0;; ++n) {
      const bool is_block = n < keys.blocks;
      block.template CopyingGroups<1>([&](auto& group) {
        const auto add_values = [&] {
          if (n == 0) return;
          Fade(block, group, state.values);
          StartValues(block, group, n - 1, state.values);
        };
        // Each branch waits for its own products: registers in flight cannot be moved.
        if (is_block && group.index() == n % kGroups) {
          StartScores(block, group, n, 0, state.scores);
          add_values();
          Bring(block, group, keys, n, 2, state.packed);
          Wait<0>(group);
        } else {
          add_values();
          Bring(block, group, keys, n, 2, state.packed);
          Wait<0>(group);
        }
      });
      if (!is_block) break;
      block.template CopyingGroups<1>([&](auto& group) {
        if (group.index() == n % kGroups) {
          StartScores(block, group, n, 1, state.scores);
          Bring(block, group, keys, n + 1, 0, state.packed);
          Wait<0>(group);
        } else {
          Bring(block, group, keys, n + 1, 0, state.packed);
        }
      });
      block.template CopyingGroups<1>([&](auto& group) {
        if (group.index() == n % kGroups) {
          StartScores(block, group, n, 2, state.scores);
          Bring(block, group, keys, n + 1, 1, state.packed);
          Wait<0>(group);
          Weigh(block, group, n, keys, state.scores);
        } else {
          Bring(block, group, keys, n + 1, 1, state.packed);
        }
      });
    }
  }

  // The queries of 64 heads, rounded.
  template <class Block, class Group>
  JANUS_DEVICE void LoadQueries(Block& block, Group& group, const AttentionTask& task,
                                int g) const {
    const RopeQueries rope(a);
    const int64_t head = int64_t{g} * kAbsorbedColumns;
    const float* const latent =
        a.latent_queries + (int64_t{task.row} * a.heads + head) * kAbsorbedRank;
    const float* const roped =
        a.rope_queries + task.row * rope.row_stride + head * rope.head_stride;
    const bool is_aligned = reinterpret_cast<uintptr_t>(latent) % sizeof(Quad) == 0 &&
                            reinterpret_cast<uintptr_t>(roped) % sizeof(Quad) == 0 &&
                            rope.head_stride % 4 == 0;
    group.Threads([&](int thread) {
      if (is_aligned) {
        MoveQueries<true>(block, thread, latent, roped, rope.head_stride);
      } else {
        MoveQueries<false>(block, thread, latent, roped, rope.head_stride);
      }
      if (thread < kAbsorbedColumns) ColumnsOf(block, Shared::kMerged)[thread] = Column{};
    });
  }
  template <bool kIsAligned, class Block>
  JANUS_DEVICE static void MoveQueries(Block& block, int thread, const float* latent,
                                       const float* roped, int64_t rope_stride) {
    unsigned char* const to = block.shared() + Shared::kQueries;
    MoveQuads<kAbsorbedRank, kIsAligned>(to, thread, latent, kAbsorbedRank);
    MoveQuads<kAbsorbedRope, kIsAligned>(to + Shared::kRopePiece * Shared::kPieceBytes, thread,
                                         roped, rope_stride);
  }
  struct alignas(16) Quad {
    float of[4];
  };
  // So many elements of each query, from any address or from multiples of 16 bytes. Neighbouring
  // threads read neighbouring quads, several of them before the first is stored.
  template <int kElements, bool kIsAligned>
  JANUS_DEVICE static void MoveQuads(unsigned char* to, int thread, const float* from,
                                     int64_t stride) {
    constexpr int kOfRow = kElements / 4;
    constexpr int kOfThread = kAbsorbedColumns * kOfRow / kThreads;
    constexpr int kAtOnce = kOfThread < 8 ? kOfThread : 8;
    constexpr int kOfPiece = Shared::kPieceElements / 4;
    static_assert(kOfThread % kAtOnce == 0 && kAbsorbedColumns * kOfRow % kThreads == 0);
    struct alignas(8) Rounded {
      uint32_t of[2];
    };
    JANUS_KEEP_LOOP
    for (int round = 0; round < kOfThread / kAtOnce; ++round) {
      const int first = round * kAtOnce * kThreads + thread;
      Quad quads[kAtOnce];
      JANUS_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        const int at = first + i * kThreads;
        const float* const q = from + at / kOfRow * stride + at % kOfRow * 4;
        if constexpr (kIsAligned) {
          quads[i] = *reinterpret_cast<const Quad*>(q);
        } else {
          JANUS_UNROLL
          for (int j = 0; j < 4; ++j) quads[i].of[j] = q[j];
        }
      }
      JANUS_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        const int c = (first + i * kThreads) / kOfRow;
        const int quad = (first + i * kThreads) % kOfRow;
        const float(&q)[4] = quads[i].of;
        *reinterpret_cast<Rounded*>(to + quad / kOfPiece * Shared::kPieceBytes +
                                    SwizzledOffset(c, quad % kOfPiece / 2) + quad % 2 * 8) = {
            {RoundedPair(q[0], q[1]), RoundedPair(q[2], q[3])}};
      }
    }
  }

  // Where an entry of the cache lies; whether the row sees it, or zeros stand for it.
  struct Entry {
    const unsigned char* at;
    bool is_seen;
  };
  template <class Block>
  JANUS_DEVICE Entry EntryOf(Block& block, const Keys& keys, int key) const {
    const int64_t stride = a.cache.page_stride_bytes != 0
                               ? a.cache.page_stride_bytes
                               : LatentPageBytes(kType, kAbsorbedRank, kAbsorbedRope);
    const auto* const pages = reinterpret_cast<const int32_t*>(block.shared() + Shared::kPages);
    const bool is_seen = key < keys.count;
    const int64_t page = is_seen ? pages[key / kPageTokens] : 0;
    return {static_cast<const unsigned char*>(a.cache.pages) + page * stride +
                key % kPageTokens * kEntryBytes,
            is_seen};
  }
  JANUS_DEVICE bool CanCopy() const {
    return reinterpret_cast<uintptr_t>(a.cache.pages) % kCopyBytes == 0 &&
           a.cache.page_stride_bytes % kCopyBytes == 0;
  }

  // Starts the copies of a third of a key block, which arrives two steps later. Third after third.
  template <class Block, class Group>
  JANUS_DEVICE void Bring(Block& block, Group& group, const Keys& keys, int key_block, int third,
                          PerThread<Packed, kThreads>& packed) const {
    const bool can_copy = CanCopy();
    group.Threads([&](int thread) {
      if constexpr (kIsScaled) {
        // The elements that the step before has read.
        const int before = third == 0 ? key_block - 1 : key_block;
        if (before >= 0 && before < keys.blocks) {
          StorePacked(UnitOf(block, before), thread, third == 0 ? 2 : third - 1, packed[thread]);
        }
      }
      if (key_block >= keys.blocks) return;
      if constexpr (kIsScaled) {
        LoadPacked(block, thread, keys, key_block, third, can_copy, packed[thread]);
        if (third == 0) CopyPieces(block, thread, keys, key_block, third, 1, can_copy);
      } else {
        CopyPieces(block, thread, keys, key_block, third, kThird, can_copy);
      }
    });
  }

  // The first `count` pieces of a third, of bfloat16: neighbouring threads have the chunks of a
  // key.
  template <class Block>
  JANUS_DEVICE void CopyPieces(Block& block, int thread, const Keys& keys, int key_block, int third,
                               int count, bool can_copy) const {
    constexpr int kChunks = kSwizzledRow / kCopyBytes;
    constexpr int kPass = kThreads / kChunks;
    static_assert(kPass % 8 == 0);  // then chunks of a thread lie alike in their keys' rows
    const int chunk = thread % kChunks;
    const int first = thread / kChunks;
    unsigned char* const first_to = UnitOf(block, key_block) + SwizzledOffset(first, chunk);
    const auto copy_all = [&](auto copy) {
      JANUS_UNROLL
      for (int pass = 0; pass < kKeyBlock / kPass; ++pass) {
        const int key = key_block * kKeyBlock + pass * kPass + first;
        const Entry entry = EntryOf(block, keys, key);
        const unsigned char* const from = entry.at + chunk * kCopyBytes;
        JANUS_UNROLL
        for (int i = 0; i < kThird; ++i) {
          if (i >= count) continue;
          const int piece = PieceOf(third, i);
          copy(first_to + pass * (kPass * kSwizzledRow) + piece * Shared::kPieceBytes,
               from + (kIsScaled ? static_cast<int>(LatentRopeAt(kAbsorbedRank))
                                 : piece * kSwizzledRow),
               entry.is_seen);
        }
      }
    };
    if (can_copy) {
      copy_all([&](unsigned char* to, const unsigned char* from, bool is_seen) {
        block.CopyAsync(to, from, is_seen);
      });
    } else {
      copy_all([&](unsigned char* to, const unsigned char* from, bool is_seen) {
        MoveChunk(to, reinterpret_cast<const uint16_t*>(from), is_seen ? kChunk : 0);
      });
    }
  }

  // Which key of a block, and the first of which 16 elements of a piece, a thread brings of fp8.
  static constexpr int kParts = AbsorbedWgmmaShared::kPieceElements / 16;
  JANUS_DEVICE static int KeyOf(int thread) { return thread / kParts; }
  JANUS_DEVICE static int FirstOf(int thread) { return thread % kParts * 16; }

  template <class Block>
  JANUS_DEVICE void LoadPacked(Block& block, int thread, const Keys& keys, int key_block, int third,
                               bool can_copy, Packed& packed) const {
    static_assert(kThreads == kParts * kKeyBlock);
    struct alignas(16) Words {
      uint32_t of[4];
    };
    const Entry entry = EntryOf(block, keys, key_block * kKeyBlock + KeyOf(thread));
    JANUS_UNROLL
    for (int i = 0; i < kThird; ++i) {
      const int piece = PieceOf(third, i);
      if (piece == Shared::kRopePiece) continue;
      const unsigned char* const from = entry.at + piece * Shared::kPieceElements + FirstOf(thread);
      Words words = {};
      uint32_t scale = 0;
      if (entry.is_seen) {
        if (can_copy) {
          words = *reinterpret_cast<const Words*>(from);
        } else {
          JANUS_UNROLL
          for (int j = 0; j < 4; ++j) words.of[j] = reinterpret_cast<const uint32_t*>(from)[j];
        }
        scale =
            *reinterpret_cast<const uint32_t*>(entry.at + LatentScalesAt(kAbsorbedRank) +
                                               piece * Shared::kPieceElements / kScaleBlock * 4);
      }
      JANUS_UNROLL
      for (int j = 0; j < 4; ++j) packed.of[i][j] = words.of[j];
      packed.scale[i] = scale;
    }
  }

  // As bfloat16.
  JANUS_DEVICE static void StorePacked(unsigned char* unit, int thread, int third,
                                       const Packed& packed) {
    struct alignas(kCopyBytes) Chunk {
      uint32_t of[kChunk / 2];
    };
    JANUS_UNROLL
    for (int i = 0; i < kThird; ++i) {
      const int piece = PieceOf(third, i);
      if (piece == Shared::kRopePiece) continue;
      const uint32_t scale = packed.scale[i];
      const uint32_t by = scale >> 16 | (scale & 0xFFFF0000u);  // a power of 2, or NaN
      unsigned char* const to = unit + piece * Shared::kPieceBytes;
      JANUS_UNROLL
      for (int half = 0; half < 2; ++half) {
        Chunk chunk;
        JANUS_UNROLL
        for (int j = 0; j < 2; ++j) {
          const uint32_t four = packed.of[i][2 * half + j];
          chunk.of[2 * j] = TimesHalves(BFloat16OfFloat8(SpreadBytes<0, 1>(four)), by);
          chunk.of[2 * j + 1] = TimesHalves(BFloat16OfFloat8(SpreadBytes<2, 3>(four)), by);
        }
        *reinterpret_cast<Chunk*>(
            to + SwizzledOffset(KeyOf(thread), FirstOf(thread) / kChunk + half)) = chunk;
      }
    }
  }

  // Starts a third of the scores of a key block.
  template <class Block, class Group>
  JANUS_DEVICE static void StartScores(Block& block, Group& group, int key_block, int third,
                                       PerThread<Scores, kThreads>& scores) {
    Settle(group, [&](int thread) -> float(&)[kKeyBlock / 2] { return scores[thread].of; });
    Fence(group);
    JANUS_UNROLL
    for (int i = 0; i < kThird; ++i) {
      const int at = PieceOf(third, i) * Shared::kPieceBytes;
      const Matrix queries(group, block.shared() + Shared::kQueries + at);
      const Matrix keys(group, UnitOf(block, key_block) + at);
      JANUS_UNROLL
      for (int k = 0; k < Shared::kPieceElements / kWgmmaInner; ++k) {
        MultiplyAsync<kKeyBlock>(
            group, [&](int thread) -> float(&)[kKeyBlock / 2] { return scores[thread].of; },
            queries.At(k), keys.At(k), third > 0 || i > 0 || k > 0);
      }
    }
    Commit(group);
  }

  // Starts the values of a key block, those of the warpgroup; the first begin the sums.
  template <class Block, class Group>
  JANUS_DEVICE static void StartValues(Block& block, Group& group, int key_block,
                                       PerThread<Values, kThreads>& values) {
    unsigned char* const unit = UnitOf(block, key_block);
    const Matrix weights(group, unit + Shared::kRopePiece * Shared::kPieceBytes);
    const TurnedMatrix<Shared::kPieceBytes> keys(
        group, unit + group.index() * (kWidth / Shared::kPieceElements * Shared::kPieceBytes));
    Settle(group, [&](int thread) -> float(&)[kWidth / 2] { return values[thread].of; });
    Fence(group);
    JANUS_UNROLL
    for (int k = 0; k < kKeyBlock / kWgmmaInner; ++k) {
      MultiplyAsync<kWidth, true>(
          group, [&](int thread) -> float(&)[kWidth / 2] { return values[thread].of; },
          weights.At(k), keys.At(k), key_block > 0 || k > 0);
    }
    Commit(group);
  }

  // The values so far, by what the block's scores make of the largest.
  template <class Block, class Group>
  JANUS_DEVICE static void Fade(Block& block, Group& group, PerThread<Values, kThreads>& values) {
    group.Threads([&](int thread) {
      const float* const fades = FadesOf(block);
      const float fade[2] = {fades[RowOf(thread)], fades[RowOf(thread) + 8]};
      JANUS_UNROLL
      for (int i = 0; i < kWidth / 2; ++i) values[thread].of[i] *= fade[i / 2 % 2];
    });
  }

  // The scorer's scores to weights, which go where the rope part of their keys lay. A row lies in
  // four threads that follow one another.
  template <class Block, class Group>
  JANUS_DEVICE void Weigh(Block& block, Group& group, int key_block, const Keys& keys,
                          PerThread<Scores, kThreads>& scores) const {
    PerThread<Rows, kThreads> largest;
    PerThread<Rows, kThreads> totals;
    PerThread<PageSums, kThreads> sums;
    const float of_power = a.scale * kLog2E;
    const int seen = keys.count - key_block * kKeyBlock;
    group.Threads([&](int thread) {
      float(&score)[kKeyBlock / 2] = scores[thread].of;
      if (seen < kKeyBlock) {
        JANUS_UNROLL
        for (int i = 0; i < kKeyBlock / 2; ++i) {
          if (ColumnOf(thread, i) + i % 2 >= seen) score[i] = kNone;
        }
      }
      JANUS_UNROLL
      for (int row = 0; row < 2; ++row) {
        float of = kNone;
        JANUS_UNROLL
        for (int i = 2 * row; i < kKeyBlock / 2; i += 4)
          of = fmaxf(of, fmaxf(score[i], score[i + 1]));
        largest[thread].of[row] = of;
      }
    });
    JANUS_UNROLL
    for (int mask = 1; mask < 4; mask *= 2) {
      JANUS_UNROLL
      for (int row = 0; row < 2; ++row) {
        group.Exchange(
            mask, [&](int thread) { return largest[thread].of[row]; },
            [&](int thread, float theirs) {
              float& mine = largest[thread].of[row];
              mine = fmaxf(mine, theirs);
            });
      }
    }
    unsigned char* const weights =
        UnitOf(block, key_block) + Shared::kRopePiece * Shared::kPieceBytes;
    const Column* const columns = ColumnsOf(block, Shared::kColumn);
    group.Threads([&](int thread) {
      float(&score)[kKeyBlock / 2] = scores[thread].of;
      JANUS_UNROLL
      for (int row = 0; row < 2; ++row) {
        const int column = RowOf(thread) + 8 * row;
        const Column before = columns[column];
        const float now = fmaxf(before.largest, largest[thread].of[row]);
        largest[thread].of[row] = now;
        // If no score is above -infinity, weights are 0, or NaN for a score that is NaN.
        const float shift = now == kNone ? 0.0f : now;
        const float fade = now == kNone ? 1.0f : PowerOf2((before.largest - now) * of_power);
        totals[thread].of[row] = before.total * fade;
        if (thread % 4 == 0) FadesOf(block)[column] = fade;
        JANUS_UNROLL
        for (int i = 2 * row; i < kKeyBlock / 2; i += 4) {
          const uint32_t pair = RoundedPair(PowerOf2((score[i] - shift) * of_power),
                                            PowerOf2((score[i + 1] - shift) * of_power));
          *reinterpret_cast<uint32_t*>(weights + SwizzledOffset(column, i / 4) + thread % 4 * 4) =
              pair;
          score[i] = FromBFloat16(static_cast<uint16_t>(pair));
          score[i + 1] = FromBFloat16(static_cast<uint16_t>(pair >> 16));
        }
        // Of keys that lie 8 apart, then of neighbours; the rest of a page is in other threads.
        JANUS_UNROLL
        for (int page = 0; page < kBlockPages; ++page) {
          const float* const of = score + 8 * page + 2 * row;
          sums[thread].of[row][page] = (of[0] + of[4]) + (of[1] + of[5]);
        }
      }
    });
    JANUS_UNROLL
    for (int row = 0; row < 2; ++row) {
      JANUS_UNROLL
      for (int page = 0; page < kBlockPages; ++page) {
        JANUS_UNROLL
        for (int mask = 1; mask < 4; mask *= 2) {
          group.Exchange(
              mask, [&](int thread) { return sums[thread].of[row][page]; },
              [&](int thread, float theirs) { sums[thread].of[row][page] += theirs; });
        }
      }
    }
    group.Threads([&](int thread) {
      if (thread % 4 != 0) return;
      JANUS_UNROLL
      for (int row = 0; row < 2; ++row) {
        const float(&sum)[kBlockPages] = sums[thread].of[row];
        ColumnsOf(block, Shared::kColumn)[RowOf(thread) + 8 * row] = {
            largest[thread].of[row],
            totals[thread].of[row] + (((sum[0] + sum[1]) + sum[2]) + sum[3])};
      }
    });
  }

  struct alignas(8) Pair {
    float of[2];
  };
  // Which of a row's 512 values element i of a thread's is.
  JANUS_DEVICE static int ValueOf(int thread, int i) {
    return thread / kGroupThreads * kWidth + ColumnOf(thread, i) + i % 2;
  }

  // The state of a split to the workspace, which begins at a multiple of 64 bytes.
  template <class Block>
  JANUS_DEVICE void StoreState(Block& block, int64_t to, int g, State& state) const {
    const SplitStates at = {a.heads, kAbsorbedRank};
    auto* const workspace = static_cast<float*>(a.workspace);
    static_assert(SplitStates{1, kAbsorbedRank}.Floats() % 2 == 0);
    block.Phase([&](int thread) {
      const int64_t head = int64_t{g} * kAbsorbedColumns + RowOf(thread);
      const int64_t rows[2] = {at.Value(to, head, 0), at.Value(to, head + 8, 0)};
      const float(&value)[kWidth / 2] = state.values[thread].of;
      JANUS_UNROLL
      for (int i = 0; i < kWidth / 2; i += 2) {
        *reinterpret_cast<Pair*>(workspace + rows[i / 2 % 2] +
                                 ValueOf(thread, i)) = {{value[i], value[i + 1]}};
      }
      if (thread >= kAbsorbedColumns) return;
      const Column& of = ColumnsOf(block, Shared::kColumn)[thread];
      workspace[at.Largest(to, int64_t{g} * kAbsorbedColumns + thread)] = of.largest * a.scale;
      workspace[at.Total(to, int64_t{g} * kAbsorbedColumns + thread)] = of.total;
    });
  }

  // Adds a split to those before it. The merged values are kept in y, because the registers hold
  // only one state. After the last split they are the results.
  template <class Block>
  JANUS_DEVICE void MergeSplit(Block& block, const AttentionTask& task, int g, int32_t s,
                               State& state) const {
    Column* const merged_n = ColumnsOf(block, Shared::kMerged);
    const Column* const split_n = ColumnsOf(block, Shared::kColumn);
    const bool is_first = s == task.first_split;
    const bool is_last = s == task.last_split;
    block.Phase([&](int thread) {
      JANUS_UNROLL
      for (int row = 0; row < 2; ++row) {
        const int column = RowOf(thread) + 8 * row;
        const MergeWeights w =
            WeighMerge(merged_n[column].largest, split_n[column].largest * a.scale);
        const float total = Merge(w, merged_n[column].total, split_n[column].total);
        float* const y =
            a.y +
            (int64_t{task.row} * a.heads + int64_t{g} * kAbsorbedColumns + column) * kAbsorbedRank;
        JANUS_UNROLL
        for (int i = 2 * row; i < kWidth / 2; i += i % 2 == 0 ? 1 : 3) {
          float& of = y[ValueOf(thread, i)];
          const float merged = Merge(w, is_first ? 0.0f : of, state.values[thread].of[i]);
          of = is_last ? merged / total : merged;
        }
      }
    });
    // Not earlier: all threads have used the old state for their weights now.
    block.Phase([&](int thread) {
      if (thread >= kAbsorbedColumns) return;
      Column& of = merged_n[thread];
      const MergeWeights w = WeighMerge(of.largest, split_n[thread].largest * a.scale);
      of = {w.largest, Merge(w, of.total, split_n[thread].total)};
    });
  }
};

// One block on each of an H100's or H200's multiprocessors, as PlanFastAbsorbed.
template <int kBits>
inline Plan PlanWgmmaAbsorbed(const AbsorbedAttentionArgs& a, int64_t states) {
  const int64_t tasks = (a.num_rows + states) * HeadTilesOf(a.heads).tiles;
  return {std::min(tasks, kAbsorbedBlocks), WgmmaAbsorbedKernel<kBits>::kThreads,
          AbsorbedWgmmaShared::kBytes, 0, 0};
}

}  // namespace janus::kernels::cuda
