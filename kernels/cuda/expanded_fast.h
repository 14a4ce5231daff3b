#pragma once

// Attention of prompt rows over keys and values that expand_keys.h has expanded, with the tensor
// cores: a block of threads takes a tile of 64 or 128 rows of a run for one head. Queries are the
// 16-row operand, of which a warp has one or two. Scores, weights and sums of values stay in its
// registers, and no warp waits for a result of another. Multiplication is the limit.
// Specification: ../reference/expanded_attention.cc
//
// Asynchronous copies bring keys a block of 64 ahead, and their values while they are scored.
//
// These rules fix the bits of a row:
//   - Queries are rounded to bfloat16, as keys and values were when they were expanded.
//   - A score adds the head's 128 elements, then the 64 of rope.
//   - Key blocks are 64 keys at absolute positions, in order, without splits. Each has a largest
//     score, and a sum of weights by the tree of paged attention (page by page, then over the
//     four).
//   - A weight is rounded to bfloat16 before it is summed and multiplied.
//   - Values are added 16 keys after 16. Keys that a row does not see have weight 0, and a zero
//     result is +0, so that they do not show.
//   - Between chunks of keys a row's state lies unchanged in the workspace, so the ends of chunks
//     do not show.

#include <cmath>

#include "kernels/cuda/attention_merge.h"
#include "kernels/cuda/element.h"
#include "kernels/cuda/expand_keys.h"

namespace janus::kernels::cuda {

// What it has in shared memory, in bytes from its start, for tiles of `kRows` rows.
template <int kRows>
struct ExpandedShared {
  static constexpr int kKeyBytes = 2 * (kSharedExpansion + kAbsorbedRope);  // of a key or a query
  static constexpr int kValueBytes = 2 * kSharedExpansion;
  static constexpr int kUnitBytes = kKeyBlock * kKeyBytes;
  static constexpr int kUnits = 2;
  static constexpr int kQueries = kUnits * kUnitBytes;             // [row]
  static constexpr int kValues = kQueries + kRows * kKeyBytes;     // [key]
  static constexpr int kLast = kValues + kKeyBlock * kValueBytes;  // [row] int32: last key it sees
  static constexpr int64_t kBytes = kLast + 4 * kRows;
};

// Items are (head, task), tasks first, so that those of a head read its keys at about the same
// time; a block takes every blocks()-th.
template <int kTileRows>
struct FastExpandedKernel {
  using Shared = ExpandedShared<kTileRows>;
  static constexpr int kThreads = 128;
  static constexpr int kBlocksAtOnce = 2;
  static constexpr int64_t kAskedSharedBytes = Shared::kBytes;
  static constexpr int kWarpRows = kTileRows * kLanes / kThreads;
  static constexpr int kRows16 = kWarpRows / 16;
  static constexpr int kSteps = kKeyBlock / 16;                 // of 16 keys
  static constexpr int kColumns8 = kKeyBlock / 8;               // of keys
  static constexpr int kValues8 = kSharedExpansion / 8;         // of values
  static constexpr int kKeyChunks = kSharedExpansion / kChunk;  // of a key, before rope
  static constexpr int kRopeChunks = kAbsorbedRope / kChunk;
  static constexpr int kRowChunks = kKeyChunks + kRopeChunks;
  static constexpr float kNone = -INFINITY;
  static_assert(kRows16 == 1 || kRows16 == 2);

  ExpandedAttentionArgs a;
  ExpandedChunk of;

  // A lane's part of its warp's rows: of rows lane/4 and lane/4 + 8 of each 16.
  struct State {
    float values[kRows16][kValues8][4];
    uint32_t weights[kRows16][kSteps][4];  // of the block, as the 16-row operand
    float largest[kRows16][2];
    float total[kRows16][2];
  };
  struct Scores {
    float of[kRows16][kColumns8][4] = {};
  };

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const int64_t tasks = of.runs->tasks;
    JANUS_KEEP_LOOP
    for (int64_t i = block.index(); i < tasks * of.heads; i += block.blocks()) {
      Run(block, of.runs->Tasks(a.num_rows)[i % tasks], static_cast<int>(i / tasks));
    }
  }

 private:
  JANUS_DEVICE SplitStates States() const { return {of.heads, kSharedExpansion}; }

  template <class Block>
  JANUS_DEVICE void Run(Block& block, const ExpandedTask& task, int h) const {
    const int32_t begin = task.first_block > of.first_block ? task.first_block : of.first_block;
    const int32_t chunk_end = of.first_block + of.blocks;
    const int32_t end = task.end_block < chunk_end ? task.end_block : chunk_end;
    if (begin >= end) return;
    PerThread<State, kThreads> states;
    block.template CopyingWarps<1>([&](auto& warp) { FillKeys(block, warp, h, begin, 0); });
    LoadQueries(block, task, h);
    LoadStates(block, task, h, begin == task.first_block, states);
    block.template CopyingWarps<1>([&](auto& warp) {
      if (begin + 1 < end) FillKeys(block, warp, h, begin + 1, 1);
    });
    JANUS_KEEP_LOOP
    for (int32_t key_block = begin; key_block < end; ++key_block) {
      const int unit = (key_block - begin) % Shared::kUnits;
      const int32_t j0 = (key_block - task.first_block) * kKeyBlock;
      // Fills the place of values that were read before the last barrier.
      block.template CopyingWarps<0>([&](auto& warp) {
        FillValues(block, warp, h, key_block);
        if (Sees(block, warp, task, j0)) Score(block, warp, unit, j0, states);
      });
      // The keys there were read too. The wait for these copies is a block later.
      block.template CopyingWarps<1>([&](auto& warp) {
        if (key_block + Shared::kUnits < end) {
          FillKeys(block, warp, h, key_block + Shared::kUnits, unit);
        }
        if (Sees(block, warp, task, j0)) AddValues(block, warp, j0, states);
      });
    }
    if (end == task.end_block) {
      StoreRows(block, task, h, states);
    } else if (!of.is_last) {
      StoreStates(block, task, h, states);
    }
  }

  // Where the 16-byte chunks of a key or a query, and of a key's values, lie: permuted so that the
  // 8 rows of a matrix are in banks of their own.
  JANUS_DEVICE static int KeyOffset(int row, int chunk) {
    return row * Shared::kKeyBytes + (chunk ^ row % 8) * kCopyBytes;
  }
  JANUS_DEVICE static int ValueOffset(int key, int chunk) {
    return Shared::kValues + key * Shared::kValueBytes + (chunk ^ key % 8) * kCopyBytes;
  }
  template <class Block>
  JANUS_DEVICE static int32_t* LastOf(Block& block) {
    return reinterpret_cast<int32_t*>(block.shared() + Shared::kLast);
  }

  template <class Block, class Warp>
  JANUS_DEVICE void FillKeys(Block& block, Warp& warp, int h, int32_t key_block, int unit) const {
    const uint16_t* const keys = of.Half(h, key_block - of.first_block, 0);
    const uint16_t* const rope = of.Rope(key_block - of.first_block);
    unsigned char* const to = block.shared() + unit * Shared::kUnitBytes;
    warp.Lanes([&](int lane) {
      const int thread = warp.index() * kLanes + lane;
      JANUS_UNROLL
      for (int i = thread; i < kKeyBlock * kKeyChunks; i += kThreads) {
        block.CopyAsync(to + KeyOffset(i / kKeyChunks, i % kKeyChunks), keys + i * kChunk, true);
      }
      JANUS_UNROLL
      for (int i = thread; i < kKeyBlock * kRopeChunks; i += kThreads) {
        block.CopyAsync(to + KeyOffset(i / kRopeChunks, kKeyChunks + i % kRopeChunks),
                        rope + i * kChunk, true);
      }
    });
  }
  template <class Block, class Warp>
  JANUS_DEVICE void FillValues(Block& block, Warp& warp, int h, int32_t key_block) const {
    const uint16_t* const values = of.Half(h, key_block - of.first_block, 1);
    warp.Lanes([&](int lane) {
      JANUS_UNROLL
      for (int i = warp.index() * kLanes + lane; i < kKeyBlock * kKeyChunks; i += kThreads) {
        block.CopyAsync(block.shared() + ValueOffset(i / kKeyChunks, i % kKeyChunks),
                        values + i * kChunk, true);
      }
    });
  }

  // Rounded queries, and the last key that each row sees. Rows beyond the task's are zeros that see
  // what its last row sees.
  template <class Block>
  JANUS_DEVICE void LoadQueries(Block& block, const ExpandedTask& task, int h) const {
    constexpr int kWidth = kSharedExpansion + kAbsorbedRope;
    const int64_t stride = a.query_stride != 0 ? a.query_stride : int64_t{a.heads} * kWidth;
    const float* const queries = a.queries + task.row * stride + (int64_t{of.head} + h) * kWidth;
    block.Phase([&](int thread) {
      JANUS_KEEP_LOOP
      for (int i = thread; i < kTileRows * kRowChunks; i += kThreads) {
        const int row = i / kRowChunks;
        const int chunk = i % kRowChunks;
        MoveRounded(block.shared() + Shared::kQueries + KeyOffset(row, chunk),
                    queries + row * stride + chunk * kChunk, row < task.rows);
      }
      for (int row = thread; row < kTileRows; row += kThreads) {
        LastOf(block)[row] = a.rows[task.row + (row < task.rows ? row : task.rows - 1)].position;
      }
    });
  }

  // fn(m, half, row) for the rows of the task that the thread has a part of.
  template <class Fn>
  JANUS_DEVICE static void ForRows(const ExpandedTask& task, int thread, Fn fn) {
    JANUS_UNROLL
    for (int m = 0; m < kRows16; ++m) {
      JANUS_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int row = thread / kLanes * kWarpRows + 16 * m + thread % kLanes / 4 + 8 * half;
        if (row < task.rows) fn(m, half, int64_t{task.row} + row);
      }
    }
  }
  // fn(n, i, d) for the thread's values of a row: d is values[m][n][i + 2 * half].
  template <class Fn>
  JANUS_DEVICE static void ForValues(int thread, Fn fn) {
    JANUS_UNROLL
    for (int n = 0; n < kValues8; ++n) {
      JANUS_UNROLL
      for (int i = 0; i < 2; ++i) fn(n, i, 8 * n + thread % 4 * 2 + i);
    }
  }

  template <class Block>
  JANUS_DEVICE void LoadStates(Block& block, const ExpandedTask& task, int h, bool begins,
                               PerThread<State, kThreads>& states) const {
    block.Phase([&](int thread) {
      State& state = states[thread];
      JANUS_UNROLL
      for (int m = 0; m < kRows16; ++m) {
        JANUS_UNROLL
        for (int half = 0; half < 2; ++half) {
          state.largest[m][half] = kNone;
          state.total[m][half] = 0.0f;
          ForValues(thread, [&](int n, int i, int) { state.values[m][n][i + 2 * half] = 0.0f; });
        }
      }
      if (begins) return;
      ForRows(task, thread, [&](int m, int half, int64_t row) {
        state.largest[m][half] = of.states[States().Largest(row, h)];
        state.total[m][half] = of.states[States().Total(row, h)];
        ForValues(thread, [&](int n, int i, int d) {
          state.values[m][n][i + 2 * half] = of.states[States().Value(row, h, d)];
        });
      });
    });
  }
  template <class Block>
  JANUS_DEVICE void StoreStates(Block& block, const ExpandedTask& task, int h,
                                PerThread<State, kThreads>& states) const {
    block.Phase([&](int thread) {
      const State& state = states[thread];
      ForRows(task, thread, [&](int m, int half, int64_t row) {
        ForValues(thread, [&](int n, int i, int d) {
          of.states[States().Value(row, h, d)] = state.values[m][n][i + 2 * half];
        });
        if (thread % 4 != 0) return;  // the others have the same
        of.states[States().Largest(row, h)] = state.largest[m][half];
        of.states[States().Total(row, h)] = state.total[m][half];
      });
    });
  }
  template <class Block>
  JANUS_DEVICE void StoreRows(Block& block, const ExpandedTask& task, int h,
                              PerThread<State, kThreads>& states) const {
    block.Phase([&](int thread) {
      const State& state = states[thread];
      ForRows(task, thread, [&](int m, int half, int64_t row) {
        const int64_t y = (row * a.heads + of.head + h) * kSharedExpansion;
        ForValues(thread, [&](int n, int i, int d) {
          const float value = state.values[m][n][i + 2 * half] + 0.0f;  // -0 becomes +0
          Store(a.y, a.y_dtype, y + d, value / state.total[m][half]);
        });
      });
    });
  }

  // The least and the most last key of the warp's rows.
  template <class Block, class Warp>
  JANUS_DEVICE static int32_t LeastOf(Block& block, Warp& warp) {
    return static_cast<int32_t>(warp.Min([&](int lane) { return LastOfLane(block, warp, lane); }));
  }
  template <class Block, class Warp>
  JANUS_DEVICE static int32_t MostOf(Block& block, Warp& warp) {
    return static_cast<int32_t>(warp.Max([&](int lane) { return LastOfLane(block, warp, lane); }));
  }
  template <class Block, class Warp>
  JANUS_DEVICE static uint32_t LastOfLane(Block& block, Warp& warp, int lane) {
    return static_cast<uint32_t>(LastOf(block)[warp.index() * kWarpRows + lane % kWarpRows]);
  }

  // Whether the warp has rows that see any of the block's keys. Otherwise it skips the block.
  template <class Block, class Warp>
  JANUS_DEVICE static bool Sees(Block& block, Warp& warp, const ExpandedTask& task, int32_t j0) {
    return warp.index() * kWarpRows < task.rows && MostOf(block, warp) >= j0;
  }

  // The block's scores, what they make of the largest, and weights; values so far fade.
  template <class Block, class Warp>
  JANUS_DEVICE void Score(Block& block, Warp& warp, int unit, int32_t j0,
                          PerThread<State, kThreads>& states) const {
    PerLane<Scores> scores;
    const int first_lane = warp.index() * kLanes;
    Multiply(block, warp, unit, scores);
    const bool all_see = LeastOf(block, warp) >= j0 + kKeyBlock - 1;
    PerLane<RowFloats> largest;
    warp.Lanes([&](int lane) {
      Scores& score = scores[lane];
      JANUS_UNROLL
      for (int m = 0; m < kRows16; ++m) {
        JANUS_UNROLL
        for (int half = 0; half < 2; ++half) {
          const int32_t last =
              LastOf(block)[warp.index() * kWarpRows + 16 * m + lane / 4 + 8 * half];
          float most = kNone;
          JANUS_UNROLL
          for (int n = 0; n < kColumns8; ++n) {
            JANUS_UNROLL
            for (int i = 0; i < 2; ++i) {
              float& of_key = score.of[m][n][i + 2 * half];
              of_key *= a.scale;
              if (!all_see && j0 + 8 * n + lane % 4 * 2 + i > last) of_key = kNone;
              most = fmaxf(most, of_key);
            }
          }
          largest[lane].of[m][half] = most;
        }
      }
    });
    FoldRows(warp, largest, [](float mine, float theirs) { return fmaxf(mine, theirs); });
    warp.Lanes([&](int lane) {
      State& state = states[first_lane + lane];
      JANUS_UNROLL
      for (int m = 0; m < kRows16; ++m) {
        JANUS_UNROLL
        for (int half = 0; half < 2; ++half) {
          const float before = state.largest[m][half];
          const float now = fmaxf(before, largest[lane].of[m][half]);
          const float fade = now == kNone ? 1.0f : expf(before - now);
          state.largest[m][half] = now;
          state.total[m][half] *= fade;
          ForValues(lane, [&](int n, int i, int) { state.values[m][n][i + 2 * half] *= fade; });
          JANUS_UNROLL
          for (int n = 0; n < kColumns8; ++n) {
            uint32_t pair = 0;
            JANUS_UNROLL
            for (int i = 0; i < 2; ++i) {
              float& of_key = scores[lane].of[m][n][i + 2 * half];
              const uint16_t weight =
                  of_key == kNone ? uint16_t{0} : ToBFloat16(expf(of_key - now));
              of_key = FromBFloat16(weight);
              pair |= uint32_t{weight} << (16 * i);
            }
            state.weights[m][n / 2][half + n % 2 * 2] = pair;
          }
        }
      }
    });
    AddWeights(warp, scores, states);
  }

  // One number for each row of a lane.
  struct RowFloats {
    float of[kRows16][2];
  };
  // Over the four lanes of a row, by a tree.
  template <class Warp, class Fold>
  JANUS_DEVICE static void FoldRows(Warp& warp, PerLane<RowFloats>& rows, Fold fold) {
    JANUS_UNROLL
    for (int m = 0; m < kRows16; ++m) {
      JANUS_UNROLL
      for (int half = 0; half < 2; ++half) {
        JANUS_UNROLL
        for (int mask = 1; mask < 4; mask *= 2) {
          warp.Exchange(
              mask, [&](int lane) { return rows[lane].of[m][half]; },
              [&](int lane, float theirs) {
                float& mine = rows[lane].of[m][half];
                mine = fold(mine, theirs);
              });
        }
      }
    }
  }

  // Of a page keys 8 apart first, then neighbours; then page after page, to the totals.
  template <class Warp>
  JANUS_DEVICE static void AddWeights(Warp& warp, PerLane<Scores>& weights,
                                      PerThread<State, kThreads>& states) {
    PerLane<RowFloats> sums;
    PerLane<RowFloats> page;
    JANUS_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      warp.Lanes([&](int lane) {
        JANUS_UNROLL
        for (int m = 0; m < kRows16; ++m) {
          JANUS_UNROLL
          for (int half = 0; half < 2; ++half) {
            const auto pair = [&](int i) {
              return weights[lane].of[m][2 * step][i + 2 * half] +
                     weights[lane].of[m][2 * step + 1][i + 2 * half];
            };
            page[lane].of[m][half] = pair(0) + pair(1);
          }
        }
      });
      FoldRows(warp, page, [](float mine, float theirs) { return mine + theirs; });
      warp.Lanes([&](int lane) {
        JANUS_UNROLL
        for (int m = 0; m < kRows16; ++m) {
          JANUS_UNROLL
          for (int half = 0; half < 2; ++half) {
            float& sum = sums[lane].of[m][half];
            sum = step == 0 ? page[lane].of[m][half] : sum + page[lane].of[m][half];
          }
        }
      });
    }
    warp.Lanes([&](int lane) {
      JANUS_UNROLL
      for (int m = 0; m < kRows16; ++m) {
        JANUS_UNROLL
        for (int half = 0; half < 2; ++half) {
          states[warp.index() * kLanes + lane].total[m][half] += sums[lane].of[m][half];
        }
      }
    });
  }

  // Queries times keys.
  template <class Block, class Warp>
  JANUS_DEVICE static void Multiply(Block& block, Warp& warp, int unit, PerLane<Scores>& scores) {
    struct Queries {
      uint32_t of[kRows16][4];
    };
    const unsigned char* const queries = block.shared() + Shared::kQueries;
    const unsigned char* const keys = block.shared() + unit * Shared::kUnitBytes;
    PerLane<Queries> of;
    warp.Lanes([&](int lane) { scores[lane] = Scores{}; });
    // Unrolled no further; the registers do not suffice for more.
    JANUS_KEEP_LOOP
    for (int begin = 0; begin < kRowChunks; begin += 8) {
      JANUS_UNROLL
      for (int chunk = begin; chunk < begin + 8; chunk += 2) {
        JANUS_UNROLL
        for (int m = 0; m < kRows16; ++m) {
          LoadMatrices(
              warp, [&](int lane) -> uint32_t(&)[4] { return of[lane].of[m]; },
              [&](int lane) {
                const int row = warp.index() * kWarpRows + 16 * m + lane % 16;
                return queries + KeyOffset(row, chunk + lane / 16);
              });
        }
        MultiplyRows<kRows16, kColumns8>(
            warp, [&](int lane) { return scores[lane].of; }, [&](int lane) { return of[lane].of; },
            [&](int n, int row, int half) { return keys + KeyOffset(8 * n + row, chunk + half); });
      }
    }
  }

  // Weights times values. Weight 0 hides a value that a row does not see, unless the value is
  // infinite or NaN.
  template <class Block, class Warp>
  JANUS_DEVICE static void AddValues(Block& block, Warp& warp, int32_t j0,
                                     PerThread<State, kThreads>& states) {
    struct Values {
      uint32_t of[4];  // of two blocks of 8
    };
    const int first_lane = warp.index() * kLanes;
    const bool all_see = LeastOf(block, warp) >= j0 + kKeyBlock - 1;
    PerLane<Values> values;
    JANUS_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      JANUS_UNROLL
      for (int n = 0; n < kValues8; n += 2) {
        LoadTransposed(
            warp, [&](int lane) -> uint32_t(&)[4] { return values[lane].of; },
            [&](int lane) {
              return block.shared() + ValueOffset(16 * step + lane % 16, n + lane / 16);
            });
        if (!all_see && warp.Ballot([&](int lane) { return IsEndless(values[lane].of); }) != 0) {
          AddSeenValues(block, warp, j0 + 16 * step, step, n, states,
                        [&](int lane) -> const uint32_t(&)[4] { return values[lane].of; });
          continue;
        }
        JANUS_UNROLL
        for (int m = 0; m < kRows16; ++m) {
          JANUS_UNROLL
          for (int i = 0; i < 2; ++i) {
            MultiplyAdd(
                warp,
                [&](int lane) -> float(&)[4] { return states[first_lane + lane].values[m][n + i]; },
                [&](int lane) -> const uint32_t* {
                  return states[first_lane + lane].weights[m][step];
                },
                [&](int lane) -> const uint32_t* { return values[lane].of + 2 * i; });
          }
        }
      }
    }
  }

  // Whether any of eight bfloat16 is infinite or NaN.
  JANUS_DEVICE static bool IsEndless(const uint32_t (&pairs)[4]) {
    constexpr uint32_t kLow = 0x7F80u;
    constexpr uint32_t kHigh = 0x7F800000u;
    bool any = false;
    JANUS_UNROLL
    for (int i = 0; i < 4; ++i) {
      any = any || (pairs[i] & kLow) == kLow || (pairs[i] & kHigh) == kHigh;
    }
    return any;
  }

  // The same for 16 keys from `key` on, if some row does not see all of them and one of these might
  // show: row by row, with zeros for what the row does not see.
  template <class Block, class Warp, class Of>
  JANUS_DEVICE static void AddSeenValues(Block& block, Warp& warp, int32_t key, int step, int n,
                                         PerThread<State, kThreads>& states, Of values) {
    struct Fragments {
      uint32_t values[4];
      float sums[4];
    };
    const int first_lane = warp.index() * kLanes;
    PerLane<Fragments> of;
    JANUS_KEEP_LOOP
    for (int row = 0; row < 16; ++row) {
      JANUS_UNROLL
      for (int m = 0; m < kRows16; ++m) {
        warp.Lanes([&](int lane) {
          const int32_t last = LastOf(block)[warp.index() * kWarpRows + 16 * m + row];
          JANUS_UNROLL
          for (int i = 0; i < 4; ++i) {
            const int32_t j = key + lane % 4 * 2 + i % 2 * 8;
            const uint32_t first = j <= last ? 0xFFFFu : 0u;
            const uint32_t second = j + 1 <= last ? 0xFFFF0000u : 0u;
            of[lane].values[i] = values(lane)[i] & (first | second);
          }
        });
        JANUS_UNROLL
        for (int i = 0; i < 2; ++i) {
          warp.Lanes([&](int lane) {
            JANUS_UNROLL
            for (int j = 0; j < 4; ++j) {
              of[lane].sums[j] = states[first_lane + lane].values[m][n + i][j];
            }
          });
          MultiplyAdd(
              warp, [&](int lane) -> float(&)[4] { return of[lane].sums; },
              [&](int lane) -> const uint32_t* {
                return states[first_lane + lane].weights[m][step];
              },
              [&](int lane) -> const uint32_t* { return of[lane].values + 2 * i; });
          warp.Lanes([&](int lane) {
            if (lane / 4 != row % 8) return;
            JANUS_UNROLL
            for (int j = 0; j < 4; ++j) {
              if (j / 2 == row / 8)
                states[first_lane + lane].values[m][n + i][j] = of[lane].sums[j];
            }
          });
        }
      }
    }
  }
};

}  // namespace janus::kernels::cuda
