#pragma once

#include "dataplane/attention/self_attention.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// Grouped-query attention, with rope in all layers or some, one algorithm for prompt and generated
// positions.
class GroupedAttention final : public SelfAttention {
 public:
  GroupedAttention(const ModelDescription& model, const AttentionWeights& weights,
                   const KvPagePool& cache, const kernels::Place& place, int max_rows);

  Status Attend(const kernels::Stream& on, int layer, const AttentionRows& rows, const void* x,
                void* y) override;
  bool has_classes() const override { return false; }

 private:
  // Writes queries, keys and values of the rows into qkv_, rotated by their positions.
  Status ProjectRows(const kernels::Stream& on, int layer, const AttentionRows& rows,
                     const void* x);
  // Normed heads of queries or keys at `x`.
  Status NormHeads(const kernels::Stream& on, const Tensor& weight, int heads, int groups, float* x,
                   int count);
  // Rope, and the norms behind it.
  Status Turn(const kernels::Stream& on, const AttentionRows& rows);
  kernels::KvCache View(int layer) const;

  const ModelDescription model_;
  const AttentionWeights& weights_;
  const KvPagePool& cache_;
  const int q_width_;
  const int kv_width_;
  const kernels::Buffer inv_freq_;   // [rotary_dim/2]
  const int64_t num_factors_;        // 0: the model has no temperature
  const kernels::Buffer factors_;    // [num_factors_]
  const kernels::Buffer ones_;       // [head_dim], of kTurnedHeads: the weights of its norms
  const kernels::Buffer qkv_;        // [T, Q + 2*KV]
  const kernels::Buffer workspace_;  // of kernels::PagedAttention
};

}  // namespace janus::dataplane
