#pragma once

#include "dataplane/attention/self_attention.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// Multi-head latent attention (DeepSeek-V2). The cache holds a normed latent vector and one rope
// key per position. Prompt positions expand keys and values from the latent vector. Generated
// positions transform their queries into the latent space and attend there. Both compute the same
// function by different algebra, so the bits differ. On a GPU prompts also use the latent form
// where only that form is fast, as over fp8. The form depends only on the position's class. So a
// position has the same bits whenever it is computed, and however many of its sequence are computed
// with it.
class LatentAttention final : public SelfAttention {
 public:
  LatentAttention(const ModelDescription& model, const AttentionWeights& weights,
                  const KvPagePool& cache, const kernels::Place& place, int max_rows);

  Status Attend(const kernels::Stream& on, int layer, const AttentionRows& rows, const void* x,
                void* y) override;
  bool has_classes() const override { return !absorbs_prompts_; }

 private:
  bool IsExpanded(PositionClass of) const {
    return of == PositionClass::kPrompt && !absorbs_prompts_;
  }
  Status ProjectQueries(const kernels::Stream& on, const AttentionLayerWeights& w,
                        const AttentionRows& rows, const void* x);
  Status WriteLatents(const kernels::Stream& on, int layer, const AttentionRows& rows,
                      const void* x);
  // Rows first..first+count-1, all with the same form; at most kAbsorbedRows for Absorbed.
  Status Expanded(const kernels::Stream& on, int layer, const AttentionRows& rows, int first,
                  int count, void* y);
  Status Absorbed(const kernels::Stream& on, int layer, const AttentionRows& rows, int first,
                  int count, void* y);
  Status Turn(const kernels::Stream& on, const AttentionRows& rows, float* x, int heads,
              int64_t row_stride) const;
  kernels::LatentCache View(int layer) const;

  const ModelDescription model_;
  const LatentDescription latent_;
  const AttentionWeights& weights_;
  const KvPagePool& cache_;
  const int64_t q_width_;      // heads * head_dim
  const int64_t entry_width_;  // R + P: elements that the cache holds per position
  const bool absorbs_prompts_;
  const kernels::Buffer inv_freq_;  // [P/2]

  kernels::Buffer query_latents_;   // fp32 [T,Rq], with a latent query
  kernels::Buffer normed_queries_;  // [T,Rq] of the wire type
  kernels::Buffer queries_;         // fp32 [T,heads,D]
  kernels::Buffer entries_;         // fp32 [T,R+P]
  kernels::Buffer absorbed_;        // fp32 [kAbsorbedRows,heads,R]: queries in the latent space
  kernels::Buffer attended_;        // fp32 [kAbsorbedRows,heads,R]: output in the latent space
  kernels::Buffer workspace_;       // of either form
  int64_t expanded_bytes_ = 0;      // the part of it that the expanded form uses
};

}  // namespace janus::dataplane
