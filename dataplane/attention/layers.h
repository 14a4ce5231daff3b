#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/aligned_buffer.h"
#include "common/model/description.h"
#include "dataplane/attention/weights.h"
#include "dataplane/engine/kv_cache.h"
#include "dataplane/engine/scheduler.h"
#include "kernels/stream.h"

namespace janus::dataplane {

// The attention side of the model over one batch: everything between two visits to the experts. The
// residual stream is fp32; inputs of projections and rows for the experts are of the wire type.
//
// Confined to the step thread. Buffers are sized once for max_rows; a step allocates nothing.
class AttentionLayers {
 public:
  AttentionLayers(const ModelDescription& model, const AttentionWeights& weights,
                  const KvCache& cache, const kernels::Stream& stream, int max_rows);

  // Takes up a batch (at most max_rows rows, which must stay valid) and embeds its tokens.
  Status Begin(const Batch& batch);

  // Rows [first, first+count) of the batch through one layer's attention, up to the experts' input,
  // which goes to `out` [count, H] of the wire type. Rows of one sequence must be attended in order
  // of position within a layer.
  Status Attend(int layer, int first, int count, std::byte* out);

  // Adds the experts' contributions, pointers [count, K] to rows [H] of the wire type.
  Status AddExperts(int first, int count, std::span<const void* const> contributions);

  // Logits of the given rows of the batch (indices ascending), [rows.size(), V]; valid until the
  // next call.
  Result<std::span<const float>> Logits(std::span<const int32_t> rows);

 private:
  Status Linear(const void* x, const Tensor& weight, int64_t outputs, int64_t inputs, int count,
                float* y, int64_t y_stride, bool accumulate);
  Status Norm(const float* x, const Tensor& weight, void* y, int count);

  const ModelDescription model_;
  const AttentionWeights& weights_;
  const KvCache& cache_;
  const kernels::Stream stream_;
  const DType wire_;
  const int q_width_;
  const int kv_width_;
  const int max_rows_;

  std::vector<float> inv_freq_;       // [rotary_dim/2]
  std::vector<int32_t> tokens_;       // [T]
  std::vector<int32_t> positions_;    // [T]
  std::vector<kernels::KvRow> rows_;  // [T]
  std::vector<float> residual_;       // [T,H]
  std::vector<float> qkv_;            // [T, Q + 2*KV]
  AlignedBuffer normed_;              // [T,H] of the wire type
  AlignedBuffer attended_;            // [T,Q] of the wire type
  std::vector<float> picked_;         // [T,H]: rows whose logits are asked for
  std::vector<float> logits_;         // grows to the most rows asked for
  AlignedBuffer workspace_;
  int batch_rows_ = 0;
};

}  // namespace janus::dataplane
