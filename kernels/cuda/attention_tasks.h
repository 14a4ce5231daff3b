#pragma once

// The fast attention cuts the rows of a call into runs and tasks. A run is neighbouring rows of one
// sequence, which share each key that is read. A task is a run over one split of its keys, or over
// all of them. Only the device knows positions, so each block of threads finds all tasks once for
// itself, from a few integers a row. All blocks find the same tasks.
//
// A run over several splits has a task for each split if the workspace holds the states of all of
// them; a second launch merges these. Otherwise one task goes over all splits and merges on the
// way. Neither this choice nor the runs that rows belong to change the bits.

#include "kernels/cuda/block.h"
#include "kernels/cuda/plan.h"
#include "kernels/kernels.h"

namespace janus::kernels::cuda {

// Rows of a launch. More rows need more launches, which may use the same workspace, because a
// stream runs one after the other.
inline constexpr int kTaskRows = 512;
inline constexpr int kTaskThreads = 128;  // threads of a block that look for tasks
// The workspace has no states of this row.
inline constexpr int32_t kNoState = -1;

// The keys that a row sees.
struct RowKeys {
  int32_t first = 0;
  int32_t last = 0;
  JANUS_DEVICE int32_t FirstSplit() const { return first / kKeySplit; }
  JANUS_DEVICE int32_t LastSplit() const { return last / kKeySplit; }
  JANUS_DEVICE bool Sees(int32_t key) const { return first <= key && key <= last; }
  JANUS_DEVICE bool SeesAnyOf(int32_t from, int keys) const {
    return first <= from + (keys - 1) && from <= last;
  }
};
JANUS_DEVICE inline RowKeys KeysOf(int32_t position, int sliding_window) {
  // A window may be as long as positions go and one more.
  const bool sees_all = sliding_window == 0 || position < sliding_window;
  return {sees_all ? 0 : position - sliding_window + 1, position};
}

// The rows of a launch.
struct AttendingRows {
  const KvRow* rows = nullptr;  // at most kTaskRows
  int count = 0;
  int sliding_window = 0;
  int most = 0;  // rows of a run
};

// A run of rows with the splits that a task goes over.
struct AttentionTask {
  const int32_t* block_table;
  int32_t row;
  int32_t rows;
  int32_t first_split;
  int32_t last_split;
  int32_t lowest;  // of the keys that any row sees
  int32_t highest;
  int32_t all_from;  // keys that all rows see
  int32_t all_to;
  bool is_split;

  JANUS_DEVICE bool AllSee(int32_t from, int keys) const {
    return all_from <= from && all_to >= from + keys - 1;
  }
};
static_assert(sizeof(AttentionTask) <= 64);

// In shared memory, one entry a row. Scratch may lie behind it, which has pointers: a GPU takes
// them at multiples of their size alone.
struct alignas(kCopyBytes) AttentionTasks {
  int32_t state[kTaskRows];  // first of the row's states in the workspace, a split each; kNoState
  int32_t task[kTaskRows + 1];  // first of the run that begins with the row; as of the next row
                                // where none begins

  // What Find needs beside the result.
  struct Scratch {
    const int32_t* table[kTaskRows];
    int32_t first_split[kTaskRows];
    int32_t last_split[kTaskRows];
    int32_t count[kTaskRows];
    int32_t sum[2][kTaskThreads];
  };

  // Whether a run begins with row t: one of at most `most` rows, which do not cross multiples of
  // it.
  JANUS_DEVICE static bool Begins(const Scratch& s, int t, int most) {
    return t % most == 0 || s.table[t] != s.table[t - 1];
  }

  // With a workspace for `states` rows and splits. The block's first kTaskThreads threads find
  // them.
  template <class Block>
  JANUS_DEVICE void Find(Block& block, const AttendingRows& of, int64_t states, Scratch& s) {
    const int rows = of.count;
    const int most = of.most;
    block.Phase([&](int thread) {
      if (thread >= kTaskThreads) return;
      for (int t = thread; t < rows; t += kTaskThreads) {
        const KvRow row = of.rows[t];
        const RowKeys keys = KeysOf(row.position, of.sliding_window);
        s.table[t] = row.block_table;
        s.first_split[t] = keys.FirstSplit();
        s.last_split[t] = keys.LastSplit();
      }
    });
    // A run's first row says for all of its rows how many states they want.
    block.Phase([&](int thread) {
      if (thread >= kTaskThreads) return;
      for (int t = thread; t < rows; t += kTaskThreads) {
        if (!Begins(s, t, most)) continue;
        const int end = EndOfRun(s, t, rows, most);
        const bool several = SplitsOfRun(s, t, end) > 1;
        for (int r = t; r < end; ++r) {
          s.count[r] = several ? s.last_split[r] - s.first_split[r] + 1 : 0;
        }
      }
    });
    SumsBefore(block, rows, s.count, state, s.sum);
    block.Phase([&](int thread) {
      if (thread >= kTaskThreads) return;
      for (int t = thread; t < rows; t += kTaskThreads) {
        if (!Begins(s, t, most)) continue;
        const int end = EndOfRun(s, t, rows, most);
        const bool is_split =
            s.count[t] > 0 && int64_t{state[end - 1]} + s.count[end - 1] <= states;
        const int tasks = is_split ? SplitsOfRun(s, t, end) : 1;
        for (int r = t; r < end; ++r) {
          if (!is_split) state[r] = kNoState;
          s.count[r] = r == t ? tasks : 0;
        }
      }
    });
    SumsBefore(block, rows, s.count, task, s.sum);
    block.Phase([&](int thread) {
      if (thread == 0) task[rows] = task[rows - 1] + s.count[rows - 1];
    });
  }

  // The first row of the run that has task `index`.
  JANUS_DEVICE int RowOf(int index, int rows) const {
    int low = 0;
    int high = rows;  // task[low] <= index < task[high]
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (task[middle] <= index) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }
  // How many rows the run that begins with row t has.
  JANUS_DEVICE int RowsOf(int t, int rows) const {
    int end = t + 1;
    while (end < rows && task[end] == task[end + 1]) ++end;
    return end - t;
  }

  // Which task `index` is, with the keys that its rows see; by way of `shared`, in shared memory.
  // Barriers order what is there of the task before.
  template <class Block>
  JANUS_DEVICE AttentionTask TaskOf(Block& block, const AttendingRows& of, int index,
                                    AttentionTask& shared) const {
    block.Phase([&](int thread) {
      if (thread != 0) return;
      AttentionTask found;
      found.row = RowOf(index, of.count);
      found.rows = RowsOf(found.row, of.count);
      const KvRow begin = of.rows[found.row];
      found.block_table = begin.block_table;
      const RowKeys first = KeysOf(begin.position, of.sliding_window);
      found.lowest = found.all_from = first.first;
      found.highest = found.all_to = first.last;
      for (int r = 1; r < found.rows; ++r) {
        const RowKeys keys = KeysOf(of.rows[found.row + r].position, of.sliding_window);
        found.lowest = keys.first < found.lowest ? keys.first : found.lowest;
        found.all_from = keys.first > found.all_from ? keys.first : found.all_from;
        found.highest = keys.last > found.highest ? keys.last : found.highest;
        found.all_to = keys.last < found.all_to ? keys.last : found.all_to;
      }
      found.is_split = state[found.row] != kNoState;
      found.first_split = found.lowest / kKeySplit;
      found.last_split = found.highest / kKeySplit;
      if (found.is_split) {
        found.first_split += index - task[found.row];
        found.last_split = found.first_split;
      }
      shared = found;
    });
    return block.Uniform(shared);
  }

 private:
  JANUS_DEVICE static int EndOfRun(const Scratch& s, int t, int rows, int most) {
    int end = t + 1;
    while (end < rows && !Begins(s, end, most)) ++end;
    return end;
  }
  JANUS_DEVICE static int SplitsOfRun(const Scratch& s, int begin, int end) {
    int lowest = s.first_split[begin];
    int highest = s.last_split[begin];
    for (int r = begin + 1; r < end; ++r) {
      lowest = s.first_split[r] < lowest ? s.first_split[r] : lowest;
      highest = s.last_split[r] > highest ? s.last_split[r] : highest;
    }
    return highest - lowest + 1;
  }

  // before[t] = the sum of count[0..t-1].
  template <class Block>
  JANUS_DEVICE static void SumsBefore(Block& block, int rows, const int32_t* count, int32_t* before,
                                      int32_t (&sum)[2][kTaskThreads]) {
    const int each = (rows + kTaskThreads - 1) / kTaskThreads;  // neighbours, a thread
    block.Phase([&](int thread) {
      if (thread >= kTaskThreads) return;
      int own = 0;
      for (int t = thread * each; t < (thread + 1) * each && t < rows; ++t) own += count[t];
      sum[0][thread] = own;
    });
    // Of as many threads as `step`, then of twice as many.
    int at = 0;
    for (int step = 1; step * each < rows; step *= 2) {
      block.Phase([&](int thread) {
        if (thread >= kTaskThreads) return;
        sum[1 - at][thread] = sum[at][thread] + (thread >= step ? sum[at][thread - step] : 0);
      });
      at = 1 - at;
    }
    block.Phase([&](int thread) {
      if (thread >= kTaskThreads) return;
      int all = thread > 0 ? sum[at][thread - 1] : 0;
      for (int t = thread * each; t < (thread + 1) * each && t < rows; ++t) {
        before[t] = all;
        all += count[t];
      }
    });
  }
};
static_assert(sizeof(AttentionTasks) % alignof(AttentionTasks::Scratch) == 0);

}  // namespace janus::kernels::cuda
