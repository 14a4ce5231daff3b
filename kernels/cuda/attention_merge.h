#pragma once

// The states of splits in the workspace of the fast attention, and their merge, from the first to
// the last. A task that goes over several splits merges with the same weights as the second launch,
// which merges the states of tasks of one split each.

#include <cmath>

#include "kernels/cuda/attention_tasks.h"
#include "kernels/cuda/element.h"

namespace janus::kernels::cuda {

// Where the states of splits lie in the workspace: of a row and split all heads, first their
// values, then the largest score and the total of each.
struct SplitStates {
  int64_t heads = 0;
  int64_t head_dim = 0;
  JANUS_DEVICE constexpr int64_t Floats() const { return heads * (head_dim + 2); }
  JANUS_DEVICE constexpr int64_t Value(int64_t state, int64_t head, int64_t d) const {
    return state * Floats() + head * head_dim + d;
  }
  JANUS_DEVICE constexpr int64_t Largest(int64_t state, int64_t head) const {
    return state * Floats() + heads * head_dim + 2 * head;
  }
  JANUS_DEVICE constexpr int64_t Total(int64_t state, int64_t head) const {
    return Largest(state, head) + 1;
  }
};

// The weights of a merged state and of the next split's state. If neither has a score above
// -infinity, both hold zeros, or NaN, and so does the result.
struct MergeWeights {
  float largest;
  float merged;
  float split;
};
JANUS_DEVICE inline MergeWeights WeighMerge(float merged, float split) {
  const float largest = fmaxf(merged, split);
  const float shift = largest == -INFINITY ? 0.0f : largest;
  return {largest, expf(merged - shift), expf(split - shift)};
}
JANUS_DEVICE inline float Merge(const MergeWeights& w, float merged, float split) {
  return merged * w.merged + split * w.split;
}

// Where the states of a launch's rows lie, and where the merged results go.
struct MergedRows {
  AttendingRows of;
  SplitStates at;
  const float* workspace = nullptr;
  int64_t states = 0;  // rows and splits that it has room for
  void* y = nullptr;
  DType y_dtype = DType::kFloat32;
  int64_t y_stride = 0;  // elements; 0: heads * head_dim
};

// Merges the states of rows over several splits, from the first to the last. Block per (row, head),
// heads first; it takes every blocks()-th.
struct MergeAttentionKernel {
  static constexpr int kThreads = kTaskThreads;
  static constexpr int64_t kSharedBytes = sizeof(AttentionTasks) + sizeof(AttentionTasks::Scratch);
  MergedRows a;

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    auto& tasks = *reinterpret_cast<AttentionTasks*>(block.shared());
    tasks.Find(block, a.of, a.states, *reinterpret_cast<AttentionTasks::Scratch*>(&tasks + 1));
    const SplitStates at = a.at;
    const int64_t stride = a.y_stride != 0 ? a.y_stride : at.heads * at.head_dim;
    // The barrier orders nothing: tasks stay as they are.
    block.Phase([&](int thread) {
      JANUS_KEEP_LOOP
      for (int64_t i = block.index(); i < a.of.count * at.heads; i += block.blocks()) {
        const int64_t t = i / at.heads;
        const int64_t head = i % at.heads;
        const int64_t first = tasks.state[t];
        if (first == kNoState) continue;
        const RowKeys keys = KeysOf(a.of.rows[t].position, a.of.sliding_window);
        const auto splits = static_cast<int>(keys.LastSplit() - keys.FirstSplit() + 1);
        JANUS_KEEP_LOOP
        for (int64_t d = thread; d < at.head_dim; d += kThreads) {
          Store(a.y, a.y_dtype, t * stride + head * at.head_dim + d,
                MergeStates(a.workspace, at, first, splits, head, d));
        }
      }
    });
  }

 private:
  // Reads kAhead states at once.
  JANUS_DEVICE static float MergeStates(const float* workspace, const SplitStates& at,
                                        int64_t first, int splits, int64_t head, int64_t d) {
    constexpr int kAhead = 8;
    float largest = -INFINITY;
    float total = 0.0f;
    float y = 0.0f;
    JANUS_KEEP_LOOP
    for (int begin = 0; begin < splits; begin += kAhead) {
      float largest_s[kAhead];
      float total_s[kAhead];
      float y_s[kAhead];
      JANUS_UNROLL
      for (int s = 0; s < kAhead; ++s) {
        const int64_t state = first + (begin + s < splits ? begin + s : splits - 1);
        largest_s[s] = workspace[at.Largest(state, head)];
        total_s[s] = workspace[at.Total(state, head)];
        y_s[s] = workspace[at.Value(state, head, d)];
      }
      JANUS_UNROLL
      for (int s = 0; s < kAhead; ++s) {
        if (begin + s >= splits) continue;
        const MergeWeights w = WeighMerge(largest, largest_s[s]);
        largest = w.largest;
        total = Merge(w, total, total_s[s]);
        y = Merge(w, y, y_s[s]);
      }
    }
    return y / total;
  }
};

inline constexpr int64_t kMergeBlocks = 8 * 132;
inline Plan PlanMergeAttention(const MergedRows& a) {
  return {std::min(a.of.count * a.at.heads, kMergeBlocks), kTaskThreads,
          MergeAttentionKernel::kSharedBytes, 0, 0};
}

}  // namespace janus::kernels::cuda
