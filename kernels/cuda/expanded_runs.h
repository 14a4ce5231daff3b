#pragma once

// Attention over expanded keys cuts the rows of a call into runs and tasks. Key blocks are numbered
// one run after the other, and each is expanded once for all rows of its run. A task is a tile of
// rows of a run. Only the device knows positions, so the first launch, one block of threads, finds
// both and writes them to the workspace.

#include "kernels/cuda/block.h"
#include "kernels/cuda/plan.h"
#include "kernels/kernels.h"

namespace janus::kernels::cuda {

// Neighbouring rows of one sequence.
struct ExpandedRun {
  int32_t row;
  int32_t last;         // the largest position of its rows
  int32_t first_block;  // the number of its key block at position 0
  int32_t end_block;
};

// Rows of a run that share a tile.
struct ExpandedTask {
  int32_t row;
  int32_t rows;
  int32_t first_block;  // of its run
  int32_t end_block;    // behind the last that any of its rows sees
};

// In the workspace: the head, then `rows` runs and as many tasks, of which the first are there.
struct alignas(64) ExpandedRuns {
  int32_t runs;
  int32_t tasks;

  static constexpr int64_t Bytes(int64_t rows) {
    const auto head = static_cast<int64_t>(sizeof(ExpandedRuns));
    const int64_t each = sizeof(ExpandedRun) + sizeof(ExpandedTask);
    return head + (rows * each + head - 1) / head * head;
  }
  JANUS_DEVICE ExpandedRun* Runs() { return reinterpret_cast<ExpandedRun*>(this + 1); }
  JANUS_DEVICE const ExpandedRun* Runs() const {
    return reinterpret_cast<const ExpandedRun*>(this + 1);
  }
  JANUS_DEVICE ExpandedTask* Tasks(int64_t rows) {
    return reinterpret_cast<ExpandedTask*>(Runs() + rows);
  }
  JANUS_DEVICE const ExpandedTask* Tasks(int64_t rows) const {
    return reinterpret_cast<const ExpandedTask*>(Runs() + rows);
  }

  // Key blocks of all runs.
  JANUS_DEVICE int32_t Blocks() const { return Runs()[runs - 1].end_block; }
  // The run of a key block that there is.
  JANUS_DEVICE const ExpandedRun& RunOf(int32_t block) const {
    int low = 0;
    int high = runs;  // first_block of low <= block < that of high
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (Runs()[middle].first_block <= block) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return Runs()[low];
  }
};

// Each thread has as many neighbouring rows as the others.
struct FindExpandedRunsKernel {
  static constexpr int kThreads = 256;
  struct Shared {
    int32_t begins[kThreads];  // runs that begin with the thread's rows
    int32_t lead[kThreads];    // the largest position of its rows before the first of these; -1
    int32_t tasks[kThreads];   // that begin with its rows
    int32_t blocks[kThreads];  // key blocks of its runs
    int32_t tail[kThreads];    // of these, of the last run
  };
  static constexpr int64_t kSharedBytes = sizeof(Shared);

  const KvRow* rows = nullptr;
  int64_t count = 0;
  int tile = 0;  // rows of a task, which do not cross multiples of it
  ExpandedRuns* to = nullptr;

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    auto& s = *reinterpret_cast<Shared*>(block.shared());
    const int64_t each = (count + kThreads - 1) / kThreads;
    block.Phase([&](int thread) {
      int32_t begins = 0;
      int32_t tasks = 0;
      int32_t lead = -1;
      for (int64_t t = thread * each; t < (thread + 1) * each && t < count; ++t) {
        begins += Begins(t) ? 1 : 0;
        tasks += BeginsTask(t) ? 1 : 0;
        if (begins == 0) lead = Larger(lead, rows[t].position);
      }
      s.begins[thread] = begins;
      s.tasks[thread] = tasks;
      s.lead[thread] = lead;
    });
    block.Phase([&](int thread) {
      int32_t blocks = 0;
      int32_t tail = 0;
      ForRuns(s, thread, each, [&](int64_t, int32_t last) {
        tail = last / kKeyBlock + 1;
        blocks += tail;
      });
      s.blocks[thread] = blocks;
      s.tail[thread] = tail;
    });
    block.Phase([&](int thread) {
      int32_t run = 0;
      int32_t task = 0;
      int32_t blocks = 0;
      int32_t first_block = 0;  // of the run that rows are of
      for (int before = 0; before < thread; ++before) {
        run += s.begins[before];
        task += s.tasks[before];
        blocks += s.blocks[before];
        if (s.begins[before] > 0) first_block = blocks - s.tail[before];
      }
      const int32_t own_run = run;
      ForRuns(s, thread, each, [&](int64_t row, int32_t last) {
        const int32_t end = blocks + last / kKeyBlock + 1;
        to->Runs()[run++] = {static_cast<int32_t>(row), last, blocks, end};
        blocks = end;
      });
      int32_t begun = own_run;
      for (int64_t t = thread * each; t < (thread + 1) * each && t < count; ++t) {
        if (Begins(t)) first_block = to->Runs()[begun++].first_block;
        if (BeginsTask(t)) to->Tasks(count)[task++] = TaskAt(t, first_block);
      }
      if (thread == kThreads - 1) {
        to->runs = run;
        to->tasks = task;
      }
    });
  }

 private:
  JANUS_DEVICE static int32_t Larger(int32_t a, int32_t b) { return a > b ? a : b; }
  JANUS_DEVICE bool Begins(int64_t t) const {
    return t == 0 || rows[t].block_table != rows[t - 1].block_table;
  }
  JANUS_DEVICE bool BeginsTask(int64_t t) const { return t % tile == 0 || Begins(t); }
  JANUS_DEVICE ExpandedTask TaskAt(int64_t t, int32_t first_block) const {
    int32_t last = rows[t].position;
    int64_t end = t + 1;
    for (; end < count && !BeginsTask(end); ++end) last = Larger(last, rows[end].position);
    return {static_cast<int32_t>(t), static_cast<int32_t>(end - t), first_block,
            first_block + last / kKeyBlock + 1};
  }

  // fn(row, last) for each run that begins with the thread's rows; its last one may go on over
  // those of later threads.
  template <class Fn>
  JANUS_DEVICE void ForRuns(const Shared& s, int thread, int64_t each, Fn fn) const {
    int64_t row = -1;
    int32_t last = -1;
    for (int64_t t = thread * each; t < (thread + 1) * each && t < count; ++t) {
      if (Begins(t)) {
        if (row >= 0) fn(row, last);
        row = t;
        last = -1;
      }
      last = Larger(last, rows[t].position);
    }
    if (row < 0) return;
    for (int later = thread + 1; later < kThreads; ++later) {
      last = Larger(last, s.lead[later]);
      if (s.begins[later] > 0) break;
    }
    fn(row, last);
  }
};
inline Plan PlanFindExpandedRuns() {
  return {1, FindExpandedRunsKernel::kThreads, FindExpandedRunsKernel::kSharedBytes, 0, 0};
}

}  // namespace janus::kernels::cuda
