#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/aligned_buffer.h"
#include "common/model/description.h"
#include "dataplane/attention/self_attention.h"
#include "dataplane/attention/weights.h"
#include "dataplane/engine/kv_cache.h"
#include "dataplane/engine/scheduler.h"
#include "kernels/stream.h"

namespace janus::dataplane {

// The attention side of the model over one batch: everything but the routed experts. The residual
// stream is fp32; inputs of projections and rows for the experts are of the wire type.
//
// An MoE layer is Attend, SharedExperts (while the rows are with the routed ones) and AddExperts; a
// dense layer is DenseLayer alone.
//
// Confined to the step thread. Buffers are sized once for max_rows; only the
// logits grow, to the most rows that were asked for at once.
class AttentionLayers {
 public:
  AttentionLayers(const ModelDescription& model, const AttentionWeights& weights,
                  const KvCache& cache, const kernels::Stream& stream, int max_rows);

  // Takes up a batch (at most max_rows rows, which must stay valid) and embeds its tokens.
  Status Begin(const Batch& batch);

  // Rows [first, first+count) of the batch through one layer's attention, up to the FFN's input,
  // which goes to `out` [count, H] of the wire type. Rows of one sequence must be attended in order
  // of position within a layer.
  Status Attend(int layer, int first, int count, std::byte* out);

  // Computes the shared experts on what Attend gave; a no-op for models without.
  Status SharedExperts(int layer, int first, int count, const std::byte* rows);

  // Adds the experts' contributions, pointers [count, K] to rows [H] of the wire type, then what
  // SharedExperts computed, to the residual stream.
  Status AddExperts(int first, int count, std::span<const void* const> contributions);

  // A whole layer without experts.
  Status DenseLayer(int layer, int first, int count);

  // Logits of the given rows of the batch (indices ascending), [rows.size(), V]; valid until the
  // next call.
  Result<std::span<const float>> Logits(std::span<const int32_t> rows);

 private:
  // A local FFN over rows [count, H] of the wire type, into local_ from row `first` on.
  Status Ffn(const FfnTensors& ffn, int intermediate, int first, int count, const std::byte* rows);
  // residual += contributions in slot order, then (if `local`) local_.
  Status Combine(int first, int count, std::span<const void* const> contributions, int top_k,
                 bool local);
  Status NormRows(const float* x, const Tensor& weight, void* y, int count) const;

  const ModelDescription model_;
  const AttentionWeights& weights_;
  const kernels::Stream stream_;
  const DType wire_;
  const int max_rows_;
  const std::unique_ptr<SelfAttention> attention_;

  std::vector<int32_t> tokens_;         // [T]
  std::vector<int32_t> positions_;      // [T]
  std::vector<PositionClass> classes_;  // [T]
  std::vector<kernels::KvRow> rows_;    // [T]
  std::vector<float> residual_;         // [T,H]
  AlignedBuffer normed_;                // [T,H] of the wire type
  AlignedBuffer attended_;              // [T, AttendedWidth] of the wire type
  std::vector<float> picked_;           // [T,H]: rows whose logits are asked for
  std::vector<float> logits_;           // grows to the most rows asked for
  // Of a dense layer's FFN or the shared experts; empty for models with neither.
  std::vector<float> local_;                       // [T,H]
  std::vector<kernels::Contribution> local_rows_;  // [T]
  AlignedBuffer ffn_workspace_;
  int batch_rows_ = 0;
};

}  // namespace janus::dataplane
