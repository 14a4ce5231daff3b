#pragma once

// What the fast forms of attention do alike with the columns of a tile. A column is a query, of a
// row and a head. Keys are taken 64 after 64 at absolute positions. The largest score and the sum
// of weights of a column are found page by page, then over the four pages.

#include <cmath>

#include "kernels/cuda/attention_merge.h"
#include "kernels/cuda/attention_tasks.h"
#include "kernels/cuda/tensor.h"

namespace janus::kernels::cuda {

inline constexpr int kBlockPages = kKeyBlock / kPageTokens;
inline constexpr int32_t kNoPage = -1;  // zeros stand for its keys, it is not looked up

// The state of a column.
struct AttentionColumn {
  float largest = -INFINITY;
  float total = 0.0f;
};
static_assert(sizeof(AttentionColumn) == 8 && sizeof(RowKeys) == 8);

// Shared says where in shared memory they lie: kLargest and kSums, [page][column] float; kSees,
// [column] RowKeys; kColumn, [column] of a split, and kMerged, [column] of the splits before.
// Each warp owns kTiles tiles of 16 elements of every column's values. kNeighbours: whether rows r
// and r + 8 of a tile are elements 2r and 2r + 1 (ExpandTransposed), else they are these.
template <class Shared, int kThreads, int kTiles, bool kNeighbours = false>
struct AttentionColumns {
  using Column = AttentionColumn;
  static constexpr float kNone = -INFINITY;

  // A lane's part of N columns' values.
  template <int N>
  struct Values {
    float of[kTiles][N / 8][4] = {};
  };

  JANUS_DEVICE static RowKeys* SeesOf(unsigned char* shared) {
    return reinterpret_cast<RowKeys*>(shared + Shared::kSees);
  }
  JANUS_DEVICE static Column* ColumnsOf(unsigned char* shared, int at) {
    return reinterpret_cast<Column*>(shared + at);
  }
  JANUS_DEVICE static float* Floats(unsigned char* shared, int at) {
    return reinterpret_cast<float*>(shared + at);
  }

  // Of element i of a fragment of sums.
  JANUS_DEVICE static int ColumnOf(int lane, int n, int i) { return 8 * n + lane % 4 * 2 + i % 2; }

  // Of its 16 rows.
  JANUS_DEVICE static int RowOf(int lane, int i) {
    return kNeighbours ? lane / 4 * 2 + i / 2 : lane / 4 + i / 2 * 8;
  }

  // Reduces of(lane, n, i) over the lanes that have column i of n, by a tree, to to[column].
  template <int N, class Warp, class Of, class Fold>
  JANUS_DEVICE static void ReduceColumns(Warp& warp, float* to, Of of, Fold fold) {
    struct Columns {
      float of[N / 8][2];
    };
    PerLane<Columns> columns;
    warp.Lanes([&](int lane) {
      JANUS_UNROLL
      for (int n = 0; n < N / 8; ++n) {
        JANUS_UNROLL
        for (int i = 0; i < 2; ++i) columns[lane].of[n][i] = of(lane, n, i);
      }
    });
    JANUS_UNROLL
    for (int n = 0; n < N / 8; ++n) {
      JANUS_UNROLL
      for (int i = 0; i < 2; ++i) {
        JANUS_UNROLL
        for (int mask = 4; mask < kLanes; mask *= 2) {
          warp.Exchange(
              mask, [&](int lane) { return columns[lane].of[n][i]; },
              [&](int lane, float theirs) {
                float& mine = columns[lane].of[n][i];
                mine = fold(mine, theirs);
              });
        }
      }
    }
    warp.Lanes([&](int lane) {
      if (lane >= 4) return;
      JANUS_UNROLL
      for (int n = 0; n < N / 8; ++n) {
        JANUS_UNROLL
        for (int i = 0; i < 2; ++i) {
          to[ColumnOf(lane, n, i)] = columns[lane].of[n][i];
        }
      }
    });
  }

  // The largest score of a column so far, including this block, and the factor by which earlier
  // weights fade.
  template <int N, class Block>
  JANUS_DEVICE static float LargestOf(Block& block, int column) {
    float largest = ColumnsOf(block.shared(), Shared::kColumn)[column].largest;
    JANUS_UNROLL
    for (int page = 0; page < kBlockPages; ++page) {
      largest = fmaxf(largest, Floats(block.shared(), Shared::kLargest)[page * N + column]);
    }
    return largest;
  }
  template <class Block>
  JANUS_DEVICE static float FadeOf(Block& block, int column, float largest) {
    const float before = ColumnsOf(block.shared(), Shared::kColumn)[column].largest;
    return largest == kNone ? 1.0f : expf(before - largest);
  }

  // The block's weights to the totals; a thread for each column.
  template <int N, class Block, class Warp>
  JANUS_DEVICE static void AddSums(Block& block, Warp& warp) {
    warp.Lanes([&](int lane) {
      const int column = warp.index() * kLanes + lane;
      if (column >= N) return;
      const float* const sum_pn = Floats(block.shared(), Shared::kSums);
      float sum = sum_pn[column];
      JANUS_UNROLL
      for (int page = 1; page < kBlockPages; ++page) sum += sum_pn[page * N + column];
      const float largest = LargestOf<N>(block, column);
      Column& of = ColumnsOf(block.shared(), Shared::kColumn)[column];
      of.total = of.total * FadeOf(block, column, largest) + sum;
      of.largest = largest;
    });
  }

  // The values of a block of which all rows see all keys.
  // load_values(key, m, to) brings 16 values from `key` on, of tile m of what the warp owns;
  // load_weights(key, n, to) the weights of 16 keys for two blocks of 8 columns from n on.
  template <int N, class Warp, class LoadValues, class LoadWeights>
  JANUS_DEVICE static void AddValues(Warp& warp, PerThread<Values<N>, kThreads>& values,
                                     LoadValues load_values, LoadWeights load_weights) {
    constexpr int kBlocks = N < 16 ? 1 : 2;
    struct Weights {
      uint32_t of[N / 8 / kBlocks][4];
    };
    const int first_lane = warp.index() * kLanes;
    struct Fragment {
      uint32_t of[4];
    };
    PerLane<Weights> weights;
    PerLane<Fragment> of;
    JANUS_UNROLL
    for (int key = 0; key < kKeyBlock; key += 16) {
      JANUS_UNROLL
      for (int n = 0; n < N / 8; n += kBlocks) {
        load_weights(key, n,
                     [&](int lane) -> uint32_t(&)[4] { return weights[lane].of[n / kBlocks]; });
      }
      JANUS_UNROLL
      for (int m = 0; m < kTiles; ++m) {
        load_values(key, m, [&](int lane) -> uint32_t(&)[4] { return of[lane].of; });
        JANUS_UNROLL
        for (int n = 0; n < N / 8; ++n) {
          MultiplyAdd(
              warp, [&](int lane) -> float(&)[4] { return values[first_lane + lane].of[m][n]; },
              [&](int lane) -> const uint32_t* { return of[lane].of; },
              [&](int lane) -> const uint32_t* {
                return weights[lane].of[n / kBlocks] + n % kBlocks * 2;
              });
        }
      }
    }
  }

  // The same if some row does not see all keys: row by row, with zeros for what the row does not
  // see, so that not even NaN or the sign of a zero can show. A row that sees none of the block
  // stays unchanged.
  template <int N, class Block, class Warp, class LoadValues, class LoadWeights>
  JANUS_DEVICE static void AddSeenValues(Block& block, Warp& warp, int rows, int group, int32_t j0,
                                         PerThread<Values<N>, kThreads>& values,
                                         LoadValues load_values, LoadWeights load_weights) {
    struct Fragments {
      uint32_t values[4];
      uint32_t weights[4];
      float sums[4];
    };
    const int first_lane = warp.index() * kLanes;
    PerLane<Fragments> of;
    JANUS_KEEP_LOOP
    for (int r = 0; r < rows; ++r) {
      const RowKeys sees = SeesOf(block.shared())[r * group];
      if (!sees.SeesAnyOf(j0, kKeyBlock)) continue;
      JANUS_KEEP_LOOP
      for (int key = 0; key < kKeyBlock; key += 16) {
        JANUS_UNROLL
        for (int m = 0; m < kTiles; ++m) {
          load_values(key, m, [&](int lane) -> uint32_t(&)[4] { return of[lane].values; });
          warp.Lanes([&](int lane) {
            JANUS_UNROLL
            for (int i = 0; i < 4; ++i) {
              const int32_t j = j0 + key + lane % 4 * 2 + i / 2 * 8;
              const uint32_t first = sees.Sees(j) ? 0xFFFFu : 0u;
              const uint32_t second = sees.Sees(j + 1) ? 0xFFFF0000u : 0u;
              of[lane].values[i] &= first | second;
            }
          });
          JANUS_UNROLL
          for (int n = 0; n < N / 8; ++n) {
            if (8 * n >= (r + 1) * group || 8 * n + 8 <= r * group) continue;
            load_weights(key, n / 2 * 2,
                         [&](int lane) -> uint32_t(&)[4] { return of[lane].weights; });
            warp.Lanes([&](int lane) {
              JANUS_UNROLL
              for (int i = 0; i < 4; ++i) {
                of[lane].sums[i] = values[first_lane + lane].of[m][n][i];
              }
            });
            MultiplyAdd(
                warp, [&](int lane) -> float(&)[4] { return of[lane].sums; },
                [&](int lane) -> const uint32_t* { return of[lane].values; },
                [&](int lane) -> const uint32_t* { return of[lane].weights + 2 * (n % 2); });
            warp.Lanes([&](int lane) {
              JANUS_UNROLL
              for (int i = 0; i < 4; ++i) {
                const int column = ColumnOf(lane, n, i);
                if (column < r * group || column >= (r + 1) * group) continue;
                values[first_lane + lane].of[m][n][i] = of[lane].sums[i];
              }
            });
          }
        }
      }
    }
  }

  // fn(n, i, row of the run, head) for the thread's columns that are queries, of `group` heads of a
  // row, the `g`-th so many.
  template <int N, class Fn>
  JANUS_DEVICE static void ForColumns(const AttentionTask& task, int group, int64_t g, int thread,
                                      Fn fn) {
    JANUS_UNROLL
    for (int n = 0; n < N / 8; ++n) {
      JANUS_UNROLL
      for (int i = 0; i < 2; ++i) {
        const int column = ColumnOf(thread % kLanes, n, i);
        if (column < task.rows * group) fn(n, i, column / group, g * group + column % group);
      }
    }
  }
  // fn(d, m, j) for a thread's elements of D of column i: they are y[m][n][j].
  template <class Fn>
  JANUS_DEVICE static void ForElements(int thread, int i, Fn fn) {
    JANUS_UNROLL
    for (int m = 0; m < kTiles; ++m) {
      JANUS_UNROLL
      for (int j = i; j < 4; j += 2) {
        const int tile = thread / kLanes * kTiles + m;
        fn(16 * tile + RowOf(thread % kLanes, j), m, j);
      }
    }
  }

  // The state of a split to the workspace.
  template <int N, class Block>
  JANUS_DEVICE static void StoreState(Block& block, const AttentionTasks& tasks,
                                      const AttentionTask& task, int group, int64_t g, int32_t s,
                                      const SplitStates& at, float* workspace,
                                      PerThread<Values<N>, kThreads>& values) {
    block.Phase([&](int thread) {
      ForColumns<N>(task, group, g, thread, [&](int n, int i, int r, int64_t head) {
        const int column = ColumnOf(thread % kLanes, n, i);
        const RowKeys sees = SeesOf(block.shared())[column];
        if (!sees.SeesAnyOf(s * kKeySplit, kKeySplit)) return;
        const int64_t to = tasks.state[task.row + r] + s - sees.FirstSplit();
        ForElements(thread, i, [&](int d, int m, int j) {
          workspace[at.Value(to, head, d)] = values[thread].of[m][n][j];
        });
        if (thread >= 4) return;  // the others have the same
        const Column& of = ColumnsOf(block.shared(), Shared::kColumn)[column];
        workspace[at.Largest(to, head)] = of.largest;
        workspace[at.Total(to, head)] = of.total;
      });
    });
  }
};

}  // namespace janus::kernels::cuda
