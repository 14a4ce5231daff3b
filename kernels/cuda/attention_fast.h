#pragma once

// Attention over paged keys and values of bfloat16 or fp8 with the tensor cores, for few rows a
// sequence.
// A block of threads takes one kv head of a run of rows over one split of the keys. The queries
// that read that head, up to 32, are the 8-column operand, and keys and values are the 16-row one.
// So each key and value is read once, and multiplied by all queries as it is read. That read is the
// limit. A second launch merges splits. Specification: ../reference/paged_attention.cc
//
// Keys and values pass through shared memory by asynchronous copies that run several steps ahead:
// 64 keys, then their 64 values. Each of the four warps scores the keys of one page, which lie as
// [D][16], as ldmatrix.trans needs them. Then each warp adds up a quarter of D of the values.
//
// Elements of fp8 stay in 8 bits up to the registers, where each becomes the bfloat16 of the same
// value. ldmatrix transposes pairs of bytes, so a lane gets two neighbours of each of two rows.
// Rows r and r + 8 of a fragment therefore are neighbours: keys in a score, elements of D in a
// value. Scales are powers of 2. A score is multiplied by its key's scale, and the weight of a
// value by the value's, both exactly.
//
// These rules fix the bits of a row, beside the order within a product of 16 (tensor.h):
//   - Queries are rounded to bfloat16. A score adds D from first to last.
//   - Key blocks are 64 keys at absolute positions. Fixed trees give the largest score and the sum
//     of weights of each. A page's tree of weights begins with neighbours in fp8, and with keys
//     that lie 8 apart in bfloat16.
//   - A weight is rounded to bfloat16 before it is summed and multiplied.
//   - Values are added 16 keys after 16. Keys that the row does not see count as zeros.
//   - Blocks go in order within a split of kKeySplit keys, and splits in order.
// No rule depends on the other rows or on the number of tasks.

#include <cmath>
#include <type_traits>

#include "kernels/cuda/attention_columns.h"
#include "kernels/cuda/attention_merge.h"
#include "kernels/cuda/attention_tasks.h"
#include "kernels/cuda/element.h"
#include "kernels/cuda/paged_attention.h"
#include "kernels/cuda/stages.h"
#include "kernels/cuda/tensor.h"

namespace janus::kernels::cuda {

// The layout of shared memory for heads of kHeadDim elements of kBits, in bytes from its start.
template <int kHeadDim, int kBits>
struct AttentionShared {
  static constexpr int kColumns = MostColumns(kHeadDim);
  // 64 keys, or their values, and their scales; of these a ring.
  static constexpr int kScales = kKeyBlock * kHeadDim * kBits / 8;
  static constexpr int kUnitBytes = kScales + (kBits == 8 ? 4 * kKeyBlock : 0);
  static constexpr int kFittingUnits = ((kHeadDim <= 128 ? 80 : 66) << 10) / kUnitBytes;
  static constexpr int kUnits = kFittingUnits < 10 ? kFittingUnits : 10;
  static constexpr int kQueries = kUnits * kUnitBytes;                  // [column][D] bfloat16
  static constexpr int kWeights = kQueries + kColumns * 2 * kHeadDim;   // [column/8][key][8], too
  static constexpr int kLargest = kWeights + kColumns * 2 * kKeyBlock;  // [warp][column]
  static constexpr int kSums = kLargest + 4 * 4 * kColumns;             // [warp][column]
  static constexpr int kSees = kSums + 4 * 4 * kColumns;                // [column] RowKeys
  static constexpr int kColumn = kSees + kColumns * 8;                  // [column] of a split
  static constexpr int kMerged = kColumn + kColumns * 8;  // [column] of the splits before
  static constexpr int kPages = kMerged + kColumns * 8;   // [64]
  static constexpr int kTask = kPages + 4 * (kKeySplit / kPageTokens);
  static constexpr int kTasks = kTask + 64;
  static constexpr int64_t kBytes = kTasks + static_cast<int64_t>(sizeof(AttentionTasks));
  static_assert(sizeof(AttentionTasks::Scratch) <= kQueries && kSees % 16 == 0 &&
                kTasks % alignof(AttentionTasks) == 0);
};

constexpr AttendingRows RowsOf(const PagedAttentionArgs& a) {
  return {a.rows, static_cast<int>(a.num_rows), a.sliding_window,
          MostColumns(a.cache.head_dim) / (a.heads / a.cache.kv_heads)};
}
inline MergedRows MergedRowsOf(const PagedAttentionArgs& a, int64_t states) {
  return {.of = RowsOf(a),
          .at = {a.heads, a.cache.head_dim},
          .workspace = static_cast<const float*>(a.workspace),
          .states = states,
          .y = a.y,
          .y_dtype = a.y_dtype,
          .y_stride = a.y_stride};
}

// Block per (task, kv head), heads first; it takes every blocks()-th.
template <int kHeadDim, int kBits>
struct FastAttentionKernel {
  using Shared = AttentionShared<kHeadDim, kBits>;
  static constexpr bool kIsScaled = kBits == 8;
  using Element = std::conditional_t<kIsScaled, uint8_t, uint16_t>;
  static constexpr DType kType = kIsScaled ? DType::kFloat8E4M3 : DType::kBFloat16;
  static constexpr int kThreads = kTaskThreads;
  static constexpr int kBlocksAtOnce = 2;
  static constexpr int64_t kAskedSharedBytes = Shared::kBytes;
  static constexpr int kWarps = kThreads / kLanes;
  static constexpr int kTiles = kHeadDim / (16 * kWarps);  // of 16 elements of D, of a warp
  using Columns = AttentionColumns<Shared, kThreads, kTiles, kIsScaled>;
  using Column = AttentionColumn;
  template <int N>
  using Values = typename Columns::template Values<N>;
  static constexpr int kPageBytes = kPageTokens * kHeadDim * kBits / 8;  // keys, values of a head
  static constexpr int kPageScales = 4 * kPageTokens;
  static constexpr int kPageChunks = kPageBytes / kCopyBytes;
  static constexpr int kChunkElements = kCopyBytes * 8 / kBits;
  static constexpr int kQueryBytes = 2 * kHeadDim;
  static_assert(kWarps == kBlockPages && kHeadDim % 64 == 0);

  PagedAttentionArgs a;  // at most kTaskRows rows
  int64_t states = 0;    // rows and splits that the workspace has room for

  template <int N>
  struct Scores {
    float of[N / 8][4] = {};  // rows are the page's keys
  };

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    auto& tasks = *reinterpret_cast<AttentionTasks*>(block.shared() + Shared::kTasks);
    const int group = a.heads / a.cache.kv_heads;
    const AttendingRows of = RowsOf(a);
    tasks.Find(block, of, states, *reinterpret_cast<AttentionTasks::Scratch*>(block.shared()));
    const int64_t count = int64_t{block.Uniform(tasks.task[of.count])} * a.cache.kv_heads;
    JANUS_KEEP_LOOP
    for (int64_t i = block.index(); i < count; i += block.blocks()) {
      const int64_t g = i % a.cache.kv_heads;
      const AttentionTask task =
          tasks.TaskOf(block, of, static_cast<int>(i / a.cache.kv_heads),
                       *reinterpret_cast<AttentionTask*>(block.shared() + Shared::kTask));
      const int columns = task.rows * group;
      if (columns <= 8) {
        Run<8>(block, tasks, task, g);
      } else if (columns <= 16 || Shared::kColumns == 16) {
        Run<16>(block, tasks, task, g);
      } else {
        Run<Shared::kColumns>(block, tasks, task, g);
      }
    }
  }

 private:
  template <int N, class Block>
  JANUS_DEVICE void Run(Block& block, const AttentionTasks& tasks, const AttentionTask& task,
                        int64_t g) const {
    PerThread<Values<N>, kThreads> merged;
    PerThread<Values<N>, kThreads> split;
    JANUS_KEEP_LOOP
    for (int32_t s = task.first_split; s <= task.last_split; ++s) {
      Split<N>(block, task, g, s, split);
      if (task.is_split) {
        Columns::template StoreState<N>(block, tasks, task, a.heads / a.cache.kv_heads, g, s,
                                        {a.heads, kHeadDim}, static_cast<float*>(a.workspace),
                                        split);
      } else {
        MergeSplit<N>(block, s, merged, split);
      }
    }
    if (!task.is_split) StoreRows<N>(block, task, g, merged);
  }

  // Rounded, and what each sees. Columns beyond the run's are zeros that see nothing.
  template <int N, class Block>
  JANUS_DEVICE void LoadQueries(Block& block, const AttentionTask& task, int64_t g) const {
    const int group = a.heads / a.cache.kv_heads;
    const int64_t stride = a.query_stride != 0 ? a.query_stride : int64_t{a.heads} * kHeadDim;
    block.Phase([&](int thread) {
      constexpr int kOfRow = kHeadDim / kChunk;
      JANUS_UNROLL
      for (int i = thread; i < N * kOfRow; i += kThreads) {
        const int c = i / kOfRow;
        const float* const q = a.queries + (task.row + c / group) * stride +
                               (g * group + c % group) * kHeadDim + i % kOfRow * kChunk;
        MoveRounded(block.shared() + Shared::kQueries + QueryOffset(c, i % kOfRow), q,
                    c < task.rows * group);
      }
      if (thread < N) {
        Columns::ColumnsOf(block.shared(), Shared::kMerged)[thread] = Column{};
        Columns::SeesOf(block.shared())[thread] =
            thread < task.rows * group
                ? KeysOf(a.rows[task.row + thread / group].position, a.sliding_window)
                : RowKeys{0, -1};
      }
    });
  }

  // Where the 16-byte chunks of a query, of a page's keys and of its values lie: permuted so that
  // the 8 rows of a matrix are in banks of their own. A page's keys are [D][2] chunks, of fp8 [D].
  JANUS_DEVICE static int QueryOffset(int column, int chunk) {
    return column * kQueryBytes + (chunk ^ (column % 8)) * kCopyBytes;
  }
  JANUS_DEVICE static int KeyOffset(int d, int half) {
    return kIsScaled ? d * kCopyBytes : d * 2 * kPageTokens + (half ^ (d / 4 % 2)) * kCopyBytes;
  }
  JANUS_DEVICE static int ValueOffset(int token, int chunk) {
    constexpr int kRowBytes = kHeadDim * kBits / 8;
    constexpr int kRowsOfBanks = kRowBytes < 128 ? 128 / kRowBytes : 1;
    return token * kRowBytes + (chunk ^ (token / kRowsOfBanks % (8 / kRowsOfBanks))) * kCopyBytes;
  }
  // The scales of a unit.
  JANUS_DEVICE static const float* ScalesOf(const unsigned char* shared, int unit) {
    return reinterpret_cast<const float*>(shared + unit * Shared::kUnitBytes + Shared::kScales);
  }
  // Of a weight for 8 columns.
  JANUS_DEVICE static int WeightOffset(int column8, int key) {
    return Shared::kWeights + (column8 * kKeyBlock + key) * kCopyBytes;
  }

  // The state of a split of the run's keys.
  template <int N, class Block>
  JANUS_DEVICE void Split(Block& block, const AttentionTask& task, int64_t g, int32_t s,
                          PerThread<Values<N>, kThreads>& values) const {
    constexpr int kAhead = Shared::kUnits - 1;
    const int32_t begin = s * kKeySplit;
    const int first = task.lowest > begin ? task.lowest - begin : 0;
    const int last = task.highest - begin < kKeySplit - 1 ? task.highest - begin : kKeySplit - 1;
    const int first_block = first / kKeyBlock;
    const int units = 2 * (last / kKeyBlock - first_block + 1);
    auto* const pages = reinterpret_cast<int32_t*>(block.shared() + Shared::kPages);
    block.Phase([&](int thread) {
      values[thread] = Values<N>{};
      if (thread < N) Columns::ColumnsOf(block.shared(), Shared::kColumn)[thread] = Column{};
      if (thread >= kKeySplit / kPageTokens) return;
      const bool is_read = thread >= first / kPageTokens && thread <= last / kPageTokens &&
                           IsSeen(task, begin + thread * kPageTokens);
      pages[thread] = is_read ? task.block_table[begin / kPageTokens + thread] : kNoPage;
    });
    int filled = 0;  // the unit of the ring that is filled next
    const auto fill = [&](auto& warp, int unit) {
      if (unit >= units) return;
      const int key_block = first_block + unit / 2;
      if (unit % 2 == 0) {
        Fill<false>(block, warp, filled, key_block, g);
      } else {
        Fill<true>(block, warp, filled, key_block, g);
      }
    };
    JANUS_KEEP_LOOP
    for (int unit = 0; unit < kAhead; ++unit) {
      // While copies are under way: the last of these waits for the first.
      if (unit == kAhead - 1 && s == task.first_split) LoadQueries<N>(block, task, g);
      block.template CopyingWarps<kAhead - 1>([&](auto& warp) { fill(warp, unit); });
      filled = Next(filled);
    }
    int read = 0;  // the unit that is multiplied next
    PerThread<Scores<N>, kThreads> scores;
    JANUS_KEEP_LOOP
    for (int unit = 0; unit < units; unit += 2) {
      const int32_t j0 = begin + (first_block + unit / 2) * kKeyBlock;
      const bool all_see = task.AllSee(j0, kKeyBlock);
      // Fills the unit that was read before the last barrier.
      block.template CopyingWarps<kAhead - 1>([&](auto& warp) {
        fill(warp, unit + kAhead);
        Score<N>(block, warp, read, j0, all_see, scores);
      });
      filled = Next(filled);
      read = Next(read);
      block.Warps([&](auto& warp) { Weigh<N>(block, warp, read, scores, values); });
      block.template CopyingWarps<kAhead - 1>([&](auto& warp) {
        fill(warp, unit + 1 + kAhead);
        Columns::template AddSums<N>(block, warp);
        const auto load_values = [&](int key, int m, auto to) {
          LoadValues(block, warp, read, key, m, to);
        };
        const auto load_weights = [&](int key, int n, auto to) {
          LoadWeights<N>(block, warp, key, n, to);
        };
        if (all_see) {
          Columns::template AddValues<N>(warp, values, load_values, load_weights);
        } else {
          Columns::template AddSeenValues<N>(block, warp, task.rows, a.heads / a.cache.kv_heads, j0,
                                             values, load_values, load_weights);
        }
      });
      filled = Next(filled);
      read = Next(read);
    }
  }

  // Whether any row of the run sees a key of the page at `key`, which lies between the lowest and
  // the highest key that rows see. With a window, two rows may see no key between them; then the
  // block table need not have the page.
  JANUS_DEVICE bool IsSeen(const AttentionTask& task, int32_t key) const {
    if (a.sliding_window == 0) return true;
    JANUS_KEEP_LOOP
    for (int r = 0; r < task.rows; ++r) {
      const RowKeys keys = KeysOf(a.rows[task.row + r].position, a.sliding_window);
      if (keys.SeesAnyOf(key, kPageTokens)) return true;
    }
    return false;
  }
  JANUS_DEVICE static int Next(int unit) { return unit + 1 == Shared::kUnits ? 0 : unit + 1; }

  // Copies the keys or the values of key block `key_block` of the split, a page by each warp. Keys
  // that no row sees are zeros.
  template <bool kIsValue, class Block, class Warp>
  JANUS_DEVICE void Fill(Block& block, Warp& warp, int unit, int key_block, int64_t g) const {
    const KvCache& cache = a.cache;
    const int64_t stride = cache.page_stride_bytes != 0
                               ? cache.page_stride_bytes
                               : KvPageBytes(kType, cache.kv_heads, kHeadDim);
    const auto* const pages = reinterpret_cast<const int32_t*>(block.shared() + Shared::kPages);
    const int32_t page = pages[key_block * kBlockPages + warp.index()];
    const bool is_read = page != kNoPage;
    const int64_t head = (kIsValue ? cache.kv_heads : 0) + g;
    const auto* const from_page =
        static_cast<const unsigned char*>(cache.pages) + (is_read ? page : 0) * stride;
    const auto* const from = from_page + head * kPageBytes;
    unsigned char* const to_unit = block.shared() + unit * Shared::kUnitBytes;
    unsigned char* const to = to_unit + warp.index() * kPageBytes;
    // Of fp8.
    [[maybe_unused]] const auto* const scales =
        from_page + KvElementBytes(kType, cache.kv_heads, kHeadDim) + head * kPageScales;
    [[maybe_unused]] unsigned char* const to_scales =
        to_unit + Shared::kScales + warp.index() * kPageScales;
    const bool can_copy =
        reinterpret_cast<uintptr_t>(cache.pages) % kCopyBytes == 0 && stride % kCopyBytes == 0;
    warp.Lanes([&](int lane) {
      if (can_copy) {
        JANUS_UNROLL
        for (int chunk = lane; chunk < kPageChunks; chunk += kLanes) {
          block.CopyAsync(to + ChunkOffset<kIsValue>(chunk), from + chunk * kCopyBytes, is_read);
        }
        if constexpr (kIsScaled) {
          if (lane < kPageScales / kCopyBytes) {
            block.CopyAsync(to_scales + lane * kCopyBytes, scales + lane * kCopyBytes, is_read);
          }
        }
      } else {
        JANUS_KEEP_LOOP
        for (int i = lane; i < kPageChunks * kChunkElements; i += kLanes) {
          auto* const chunk =
              reinterpret_cast<Element*>(to + ChunkOffset<kIsValue>(i / kChunkElements));
          chunk[i % kChunkElements] =
              is_read ? reinterpret_cast<const Element*>(from)[i] : Element{0};
        }
        if constexpr (kIsScaled) {
          if (lane < kPageTokens) {
            reinterpret_cast<float*>(to_scales)[lane] =
                is_read ? reinterpret_cast<const float*>(scales)[lane] : 0.0f;
          }
        }
      }
    });
  }
  // Of a page's keys or values, in the order of the cache.
  template <bool kIsValue>
  JANUS_DEVICE static int ChunkOffset(int chunk) {
    constexpr int kOfRow = kHeadDim / kChunkElements;
    if (kIsValue) return ValueOffset(chunk / kOfRow, chunk % kOfRow);
    return kIsScaled ? KeyOffset(chunk, 0) : KeyOffset(chunk / 2, chunk % 2);
  }

  // The scores of a warp's page, and the largest of each column.
  template <int N, class Block, class Warp>
  JANUS_DEVICE void Score(Block& block, Warp& warp, int unit, int32_t j0, bool all_see,
                          PerThread<Scores<N>, kThreads>& scores) const {
    struct Fragments {
      uint32_t keys[4];
      uint32_t queries[4];  // of two blocks of 8 columns; of one twice where there is one
    };
    struct Packed {
      uint32_t of[4];  // of fp8: two fragments of keys
    };
    constexpr int kBlocks = N < 16 ? 1 : 2;
    unsigned char* const shared = block.shared();
    const unsigned char* const page =
        shared + unit * Shared::kUnitBytes + warp.index() * kPageBytes;
    const int first_lane = warp.index() * kLanes;
    warp.Lanes([&](int lane) { scores[first_lane + lane] = Scores<N>{}; });
    PerLane<Fragments> of;
    [[maybe_unused]] PerLane<Packed> packed;
    // Unrolled up to heads of 128; the registers do not suffice for more.
    JANUS_KEEP_LOOP
    for (int begin = 0; begin < kHeadDim; begin += kHeadDim < 128 ? kHeadDim : 128) {
      JANUS_UNROLL
      for (int i16 = 0; i16 < 128 && i16 < kHeadDim; i16 += 16) {
        const int d = begin + i16;
        if constexpr (kIsScaled) {
          if (i16 % 32 == 0) {
            LoadTransposed(
                warp, [&](int lane) -> uint32_t(&)[4] { return packed[lane].of; },
                [&](int lane) { return page + KeyOffset(d + lane, 0); });
          }
          JANUS_UNROLL
          for (int i = 0; i < 2; ++i) {
            ExpandTransposed(
                warp, [&](int lane) { return packed[lane].of[i16 % 32 / 16 * 2 + i]; },
                [&](int lane) -> uint32_t& { return of[lane].keys[2 * i]; },
                [&](int lane) -> uint32_t& { return of[lane].keys[2 * i + 1]; });
          }
        } else {
          LoadTransposed(
              warp, [&](int lane) -> uint32_t(&)[4] { return of[lane].keys; },
              [&](int lane) {
                return page + KeyOffset(d + lane / 16 * 8 + lane % 8, lane / 8 % 2);
              });
        }
        JANUS_UNROLL
        for (int n = 0; n < N / 8; n += 2) {
          LoadMatrices(
              warp, [&](int lane) -> uint32_t(&)[4] { return of[lane].queries; },
              [&](int lane) {
                return shared + Shared::kQueries +
                       QueryOffset(8 * (n + lane / 16 % kBlocks) + lane % 8,
                                   d / kChunk + lane / 8 % 2);
              });
          JANUS_UNROLL
          for (int i = 0; i < kBlocks; ++i) {
            MultiplyAdd(
                warp, [&](int lane) -> float(&)[4] { return scores[first_lane + lane].of[n + i]; },
                [&](int lane) -> const uint32_t* { return of[lane].keys; },
                [&](int lane) -> const uint32_t* { return of[lane].queries + 2 * i; });
          }
        }
      }
    }
    const int32_t page_begin = j0 + warp.index() * kPageTokens;
    warp.Lanes([&](int lane) {
      Scores<N>& score = scores[first_lane + lane];
      [[maybe_unused]] float of_key[2];
      if constexpr (kIsScaled) {
        JANUS_UNROLL
        for (int half = 0; half < 2; ++half) {
          of_key[half] =
              ScalesOf(shared, unit)[warp.index() * kPageTokens + Columns::RowOf(lane, 2 * half)];
        }
      }
      JANUS_UNROLL
      for (int n = 0; n < N / 8; ++n) {
        JANUS_UNROLL
        for (int i = 0; i < 4; ++i) {
          score.of[n][i] *= a.scale;
          if constexpr (kIsScaled) score.of[n][i] *= of_key[i / 2];
          if (all_see) continue;
          const int32_t key = page_begin + Columns::RowOf(lane, i);
          if (!Columns::SeesOf(shared)[Columns::ColumnOf(lane, n, i)].Sees(key))
            score.of[n][i] = Columns::kNone;
        }
      }
    });
    Columns::template ReduceColumns<N>(
        warp, Columns::Floats(block.shared(), Shared::kLargest) + warp.index() * N,
        [&](int lane, int n, int i) {
          const auto& score = scores[first_lane + lane].of[n];
          return fmaxf(score[i], score[i + 2]);
        },
        [](float mine, float theirs) { return fmaxf(mine, theirs); });
  }

  // Scores to weights, which go to shared memory with their sums; the values so far fade. `unit`
  // has the values of the keys.
  template <int N, class Block, class Warp>
  JANUS_DEVICE void Weigh(Block& block, Warp& warp, [[maybe_unused]] int unit,
                          PerThread<Scores<N>, kThreads>& scores,
                          PerThread<Values<N>, kThreads>& values) const {
    const int first_lane = warp.index() * kLanes;
    warp.Lanes([&](int lane) {
      Values<N>& value = values[first_lane + lane];
      Scores<N>& score = scores[first_lane + lane];
      JANUS_UNROLL
      for (int n = 0; n < N / 8; ++n) {
        uint32_t pair[2] = {};  // of a key, of two columns
        JANUS_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int column = Columns::ColumnOf(lane, n, i);
          const float largest = Columns::template LargestOf<N>(block, column);
          const float fade = Columns::FadeOf(block, column, largest);
          JANUS_UNROLL
          for (int m = 0; m < kTiles; ++m) {
            value.of[m][n][i] *= fade;
            value.of[m][n][i + 2] *= fade;
          }
          JANUS_UNROLL
          for (int half = 0; half < 2; ++half) {
            float& of = score.of[n][i + 2 * half];
            const bool is_none = of == Columns::kNone;
            uint16_t weight = is_none ? uint16_t{0} : ToBFloat16(expf(of - largest));
            of = FromBFloat16(weight);
            if constexpr (kIsScaled) {
              const int key = warp.index() * kPageTokens + Columns::RowOf(lane, 2 * half);
              if (!is_none) weight = ToBFloat16(of * ScalesOf(block.shared(), unit)[key]);
            }
            pair[half] |= uint32_t{weight} << (16 * i);
          }
        }
        JANUS_UNROLL
        for (int half = 0; half < 2; ++half) {
          const int key = warp.index() * kPageTokens + Columns::RowOf(lane, 2 * half);
          *reinterpret_cast<uint32_t*>(block.shared() + WeightOffset(n, key) + lane % 4 * 4) =
              pair[half];
        }
      }
    });
    Columns::template ReduceColumns<N>(
        warp, Columns::Floats(block.shared(), Shared::kSums) + warp.index() * N,
        [&](int lane, int n, int i) {
          const auto& weight = scores[first_lane + lane].of[n];
          return weight[i] + weight[i + 2];
        },
        [](float mine, float theirs) { return mine + theirs; });
  }

  // 16 values from `key` on, of tile m of the warp's quarter of D, to to(lane).
  template <class Block, class Warp, class To>
  JANUS_DEVICE static void LoadValues(Block& block, Warp& warp, int unit, int key, int m, To to) {
    const unsigned char* const page =
        block.shared() + unit * Shared::kUnitBytes + key / kPageTokens * kPageBytes;
    const int tile = warp.index() * kTiles + m;
    if constexpr (kIsScaled) {
      struct Packed {
        uint32_t of[2];
      };
      PerLane<Packed> packed;
      LoadTransposedPair(
          warp, [&](int lane) -> uint32_t(&)[2] { return packed[lane].of; },
          [&](int lane) { return page + ValueOffset(lane, tile); });
      JANUS_UNROLL
      for (int i = 0; i < 2; ++i) {
        ExpandTransposed(
            warp, [&](int lane) { return packed[lane].of[i]; },
            [&](int lane) -> uint32_t& { return to(lane)[2 * i]; },
            [&](int lane) -> uint32_t& { return to(lane)[2 * i + 1]; });
      }
    } else {
      LoadTransposed(warp, to, [&](int lane) {
        return page + ValueOffset(lane / 16 * 8 + lane % 8, 2 * tile + lane / 8 % 2);
      });
    }
  }
  // The weights of 16 keys for two blocks of 8 columns from `n` on, to to(lane).
  template <int N, class Block, class Warp, class To>
  JANUS_DEVICE static void LoadWeights(Block& block, Warp& warp, int key, int n, To to) {
    LoadTransposed(warp, to, [&](int lane) {
      return block.shared() +
             WeightOffset(n + lane / 16 % (N < 16 ? 1 : 2), key + lane / 8 % 2 * 8 + lane % 8);
    });
  }

  // Adds a split to those before it, for rows that see any of it.
  template <int N, class Block>
  JANUS_DEVICE static void MergeSplit(Block& block, int32_t s,
                                      PerThread<Values<N>, kThreads>& merged,
                                      PerThread<Values<N>, kThreads>& split) {
    Column* const merged_n = Columns::ColumnsOf(block.shared(), Shared::kMerged);
    const Column* const split_n = Columns::ColumnsOf(block.shared(), Shared::kColumn);
    const auto sees = [&](int column) {
      return Columns::SeesOf(block.shared())[column].SeesAnyOf(s * kKeySplit, kKeySplit);
    };
    block.Phase([&](int thread) {
      JANUS_UNROLL
      for (int n = 0; n < N / 8; ++n) {
        JANUS_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int column = Columns::ColumnOf(thread % kLanes, n, i);
          if (!sees(column)) continue;
          const MergeWeights w = WeighMerge(merged_n[column].largest, split_n[column].largest);
          JANUS_UNROLL
          for (int m = 0; m < kTiles; ++m) {
            JANUS_UNROLL
            for (int j = i; j < 4; j += 2) {
              float& y = merged[thread].of[m][n][j];
              y = Merge(w, y, split[thread].of[m][n][j]);
            }
          }
        }
      }
    });
    // Not earlier: all threads have used the old state for their weights now.
    block.Phase([&](int thread) {
      if (thread >= N || !sees(thread)) return;
      Column& of = merged_n[thread];
      const MergeWeights w = WeighMerge(of.largest, split_n[thread].largest);
      of = {w.largest, Merge(w, of.total, split_n[thread].total)};
    });
  }

  template <int N, class Block>
  JANUS_DEVICE void StoreRows(Block& block, const AttentionTask& task, int64_t g,
                              PerThread<Values<N>, kThreads>& values) const {
    const int64_t stride = a.y_stride != 0 ? a.y_stride : int64_t{a.heads} * kHeadDim;
    block.Phase([&](int thread) {
      Columns::template ForColumns<N>(
          task, a.heads / a.cache.kv_heads, g, thread, [&](int n, int i, int r, int64_t head) {
            const int column = Columns::ColumnOf(thread % kLanes, n, i);
            const float total = Columns::ColumnsOf(block.shared(), Shared::kMerged)[column].total;
            const int64_t y = (task.row + r) * stride + head * kHeadDim;
            Columns::ForElements(thread, i, [&](int d, int m, int j) {
              Store(a.y, a.y_dtype, y + d, values[thread].of[m][n][j] / total);
            });
          });
    });
  }
};

// Two blocks on each of an H100's or H200's 132 multiprocessors. A GPU with fewer runs them in
// turns.
inline constexpr int64_t kAttentionBlocks = 2 * 132;

// `states`: rows and splits that the workspace has room for. No more blocks than there can be
// tasks.
template <int kHeadDim, int kBits>
inline Plan PlanFastAttention(const PagedAttentionArgs& a, int64_t states) {
  const int64_t tasks = (a.num_rows + states) * a.cache.kv_heads;
  return {std::min(tasks, kAttentionBlocks), kTaskThreads, AttentionShared<kHeadDim, kBits>::kBytes,
          0, 0};
}

}  // namespace janus::kernels::cuda
