#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/model/description.h"
#include "dataplane/attention/self_attention.h"
#include "dataplane/attention/weights.h"
#include "dataplane/engine/kv_cache.h"
#include "dataplane/engine/scheduler.h"
#include "kernels/device/context.h"
#include "kernels/device/staging.h"
#include "kernels/kernels.h"

namespace janus::dataplane {

// The attention side of the model over one batch: everything but the routed experts. The residual
// stream is fp32; inputs of projections and rows for the experts are of the wire type.
//
// An MoE layer is Attend, SharedExperts (while the rows are with the routed ones) and AddExperts; a
// dense layer is DenseLayer alone.
//
// On a GPU everything lies in its memory, weights and cache included. What a step tells of its rows
// goes up in one copy (Begin), rows for the experts come down into the exchange's slot (Attend,
// which waits for them), contributions go up gathered (AddExperts).
//
// Confined to the step thread. Buffers are sized once; on the host the logits grow, to the most
// rows that were asked for at once. What the place's context has not enough memory for it tells by
// TakeFailure.
class AttentionLayers {
 public:
  struct Room {
    int max_rows = 0;
    int micro_batches = 1;  // into which a batch is cut (micro_batch.h)
    // Of a GPU alone: the most rows that logits are asked for at once, and whether they are wanted
    // on the host.
    int most_logits = 0;
    bool logits_on_host = false;
  };
  AttentionLayers(const ModelDescription& model, const AttentionWeights& weights,
                  const KvCache& cache, const kernels::Place& place, const Room& room);

  // Takes up a batch (at most max_rows rows, which must stay valid) and embeds its tokens.
  Status Begin(const Batch& batch);

  // Rows [first, first+count) of the batch, a micro-batch of it or all, through one layer's
  // attention, up to the FFN's input, which goes to `out` [count, H] of the wire type, in the
  // host's memory. Rows of one sequence must be attended in order of position within a layer.
  Status Attend(int layer, int first, int count, std::byte* out);

  // Computes the shared experts on what Attend gave; a no-op for models without.
  Status SharedExperts(int layer, int first, int count, const std::byte* rows);

  // Adds the experts' contributions, pointers [count, K] to rows [H] of the wire type, then what
  // SharedExperts computed, to the residual stream.
  Status AddExperts(int first, int count, std::span<const void* const> contributions);

  // A whole layer without experts.
  Status DenseLayer(int layer, int first, int count);

  // Logits of the given rows of the batch (indices ascending), [rows.size(), V], where sampling
  // reads them; valid until the next call.
  Result<std::span<const float>> Logits(std::span<const int32_t> rows);
  // The same where the host reads them.
  Result<std::span<const float>> OnHost(std::span<const float> logits);

 private:
  // What a step tells of its rows, by offset.
  struct StepLayout {
    size_t rows = 0;       // KvRow [T]
    size_t experts = 0;    // of a GPU: ActiveExpert [layers, b], the local FFN of each part
    size_t tokens = 0;     // int32 [T]
    size_t positions = 0;  // int32 [T]
    size_t tables = 0;     // of a GPU: int32 [pages], one sequence's after the other's
    size_t bytes = 0;
    static StepLayout For(const ModelDescription& model, const KvCache& cache, const Room& room,
                          bool is_host);
  };

  void PrepareDevice();
  size_t PlaceTables(const Batch& batch);
  void PlaceLocalExperts();
  // Which micro-batch of the batch these rows are.
  int PartAt(int first, int count) const;
  // Attend into the device's memory, where `out` may be the host's if that is the same.
  Status AttendInto(int layer, int first, int count, std::byte* out);
  // The layer's local FFN over rows [count, H] of the wire type, into local_ from row `first` on.
  // On a GPU they are those of to_experts_.
  Status Ffn(int layer, int intermediate, int first, int count, const std::byte* rows);
  // residual += contributions in slot order, then (if `local`) local_.
  Status Combine(int first, int count, std::span<const void* const> contributions, int top_k,
                 bool local);
  Status NormRows(const float* x, const Tensor& weight, void* y, int count) const;

  const ModelDescription model_;
  const AttentionWeights& weights_;
  const kernels::Stream stream_;
  kernels::Context& context_;
  const bool is_host_;  // whether the device's memory is the host's
  const DType wire_;
  const size_t row_bytes_;  // of the wire type
  const Room room_;
  const StepLayout layout_;
  const std::unique_ptr<SelfAttention> attention_;

  std::vector<PositionClass> classes_;  // [T]
  std::vector<int32_t> positions_;      // [T]
  std::vector<int32_t> sequences_;      // [T]: counted from 0
  kernels::Staging step_;               // StepLayout
  kernels::Buffer residual_;            // fp32 [T,H]
  kernels::Buffer normed_;              // [T,H] of the wire type
  kernels::Buffer attended_;            // [T, AttendedWidth] of the wire type
  kernels::Buffer picked_;              // fp32 [T,H]: rows whose logits are asked for
  kernels::Buffer logits_;              // fp32; on the host it grows to the most rows asked for
  kernels::Buffer host_logits_;         // of a GPU
  // Of a dense layer's FFN or the shared experts; empty for models with neither.
  kernels::Buffer local_;  // fp32 [T,H]
  kernels::Buffer ffn_workspace_;
  std::vector<kernels::Contribution> local_rows_;  // [T], of the host
  // Of a GPU: rows on their way to the experts and back, by row of the batch.
  kernels::Buffer to_experts_;         // [T,H] of the wire type
  kernels::Buffer device_local_rows_;  // Contribution [T]: from to_experts_ to local_
  kernels::Staging arrived_;           // [T,K,H] of the wire type
  kernels::Buffer arrived_pointers_;   // [T,K], into it
  int batch_rows_ = 0;
};

}  // namespace janus::dataplane
