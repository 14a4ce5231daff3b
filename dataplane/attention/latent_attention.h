#pragma once

#include "dataplane/attention/self_attention.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// Multi-head latent attention (DeepSeek-V2). The cache holds a normed latent vector and one rope
// key per position. Prompt positions expand keys and values from it, generated ones take their
// queries into the latent space and attend there: the same function in other algebra, so other
// bits. On a GPU prompts do so too where only that form is a fast one, as over fp8. Which form
// computes a position follows its class alone, so a position has the same bits whenever it is
// computed, and however many of its sequence are computed with it.
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
  // Rows first..first+count-1, all of one form; at most kAbsorbedRows for Absorbed.
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
  const int64_t entry_width_;  // R + P: what the cache holds of a position
  const bool absorbs_prompts_;
  const kernels::Buffer inv_freq_;  // [P/2]

  kernels::Buffer query_latents_;   // fp32 [T,Rq], with a latent query
  kernels::Buffer normed_queries_;  // [T,Rq] of the wire type
  kernels::Buffer queries_;         // fp32 [T,heads,D]
  kernels::Buffer entries_;         // fp32 [T,R+P]
  kernels::Buffer absorbed_;        // fp32 [kAbsorbedRows,heads,R]: queries in the latent space
  kernels::Buffer attended_;        // fp32 [kAbsorbedRows,heads,R]: what they brought
  kernels::Buffer workspace_;       // of either form
  int64_t expanded_bytes_ = 0;      // of it, for the expanded one
};

}  // namespace janus::dataplane
