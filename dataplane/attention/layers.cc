#include "dataplane/attention/layers.h"

#include <algorithm>
#include <cstring>

#include "dataplane/attention/projection.h"
#include "kernels/kernels.h"

namespace janus::dataplane {
namespace {

// The widest FFN on this side.
int LocalIntermediate(const ModelDescription& model) {
  return std::max(model.dense_layers.empty() ? 0 : model.dense_intermediate,
                  model.moe.shared_intermediate);
}

}  // namespace

AttentionLayers::AttentionLayers(const ModelDescription& model, const AttentionWeights& weights,
                                 const KvCache& cache, const kernels::Stream& stream, int max_rows)
    : model_(model),
      weights_(weights),
      stream_(stream),
      wire_(WireType(model)),
      max_rows_(max_rows),
      attention_(MakeSelfAttention(model, weights, cache, stream, max_rows)) {
  const auto rows = static_cast<size_t>(max_rows);
  const auto hidden = static_cast<size_t>(model.hidden);
  const auto wire_bytes = static_cast<size_t>(SizeOf(wire_));
  tokens_.resize(rows);
  positions_.resize(rows);
  classes_.resize(rows);
  rows_.resize(rows);
  residual_.resize(rows * hidden);
  normed_ = AlignedBuffer(rows * hidden * wire_bytes);
  attended_ =
      AlignedBuffer(rows * static_cast<size_t>(AttendedWidth(model.attention)) * wire_bytes);
  picked_.resize(rows * hidden);
  if (const int intermediate = LocalIntermediate(model); intermediate > 0) {
    local_.resize(rows * hidden);
    local_rows_.resize(rows);
    const auto workspace = kernels::GroupedExpertFfnWorkspace::For(max_rows, intermediate, wire_);
    ffn_workspace_ = AlignedBuffer(static_cast<size_t>(workspace.bytes));
  }
}

Status AttentionLayers::NormRows(const float* x, const Tensor& weight, void* y, int count) const {
  return Norm(stream_, weight,
              {.x = x,
               .y = y,
               .y_dtype = wire_,
               .count = count,
               .size = model_.hidden,
               .epsilon = model_.norm_epsilon});
}

Status AttentionLayers::Begin(const Batch& batch) {
  batch_rows_ = static_cast<int>(batch.rows.size());
  JANUS_CHECK(batch_rows_ <= max_rows_, batch_rows_, max_rows_);
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const BatchRow& row = batch.rows[i];
    tokens_[i] = row.token;
    positions_[i] = row.position;
    classes_[i] = row.position_class;
    rows_[i] = {row.sequence->pages.data(), row.position};
  }
  kernels::EmbedArgs args;
  args.tokens = tokens_.data();
  args.table = weights_.embedding.data;
  args.table_dtype = weights_.embedding.dtype;
  args.y = residual_.data();
  args.rows = batch_rows_;
  args.vocab = model_.vocab;
  args.hidden = model_.hidden;
  return kernels::Embed(stream_, args);
}

Status AttentionLayers::Attend(int layer, int first, int count, std::byte* out) {
  if (count == 0) return OkStatus();
  const AttentionLayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  float* residual = residual_.data() + int64_t{first} * model_.hidden;
  JANUS_RETURN_IF_ERROR(NormRows(residual, w.input_norm, normed_.data(), count));
  const AttentionRows rows{rows_.data() + first, positions_.data() + first, classes_.data() + first,
                           count};
  JANUS_RETURN_IF_ERROR(attention_->Attend(layer, rows, normed_.data(), attended_.data()));
  JANUS_RETURN_IF_ERROR(Project(stream_, w.o,
                                {.x = attended_.data(),
                                 .x_dtype = wire_,
                                 .count = count,
                                 .inputs = AttendedWidth(model_.attention),
                                 .outputs = model_.hidden,
                                 .y = residual,
                                 .accumulate = true}));
  return NormRows(residual, w.post_norm, out, count);
}

Status AttentionLayers::Ffn(const FfnTensors& ffn, int intermediate, int first, int count,
                            const std::byte* rows) {
  const int64_t row_bytes = int64_t{model_.hidden} * SizeOf(wire_);
  for (int i = 0; i < count; ++i) {
    local_rows_[static_cast<size_t>(i)] = {
        rows + i * row_bytes, local_.data() + int64_t{first + i} * model_.hidden, 1.0f};
  }
  kernels::ActiveExpert all;
  all.gate = ffn.gate.data;
  all.up = ffn.up.data;
  all.down = ffn.down.data;
  all.count = count;
  kernels::GroupedExpertFfnArgs args;
  args.experts = &all;
  args.contributions = local_rows_.data();
  args.num_experts = 1;
  args.num_contributions = count;
  args.hidden = model_.hidden;
  args.intermediate = intermediate;
  args.weight_dtype = ffn.gate.dtype;
  args.row_dtype = wire_;
  args.workspace = ffn_workspace_.data();
  args.workspace_bytes = static_cast<int64_t>(ffn_workspace_.size());
  return kernels::GroupedExpertFfn(stream_, args);
}

Status AttentionLayers::SharedExperts(int layer, int first, int count, const std::byte* rows) {
  if (count == 0 || model_.moe.shared_intermediate == 0) return OkStatus();
  return Ffn(weights_.layers[static_cast<size_t>(layer)].ffn, model_.moe.shared_intermediate, first,
             count, rows);
}

Status AttentionLayers::Combine(int first, int count, std::span<const void* const> contributions,
                                int top_k, bool local) {
  const int64_t offset = int64_t{first} * model_.hidden;
  kernels::CombineSlotsArgs args;
  args.contributions = contributions.data();
  args.dtype = wire_;
  args.local = local ? local_.data() + offset : nullptr;
  args.residual = residual_.data() + offset;
  args.y = residual_.data() + offset;
  args.rows = count;
  args.hidden = model_.hidden;
  args.top_k = top_k;
  return kernels::CombineSlots(stream_, args);
}

Status AttentionLayers::AddExperts(int first, int count,
                                   std::span<const void* const> contributions) {
  if (count == 0) return OkStatus();
  return Combine(first, count, contributions, model_.moe.top_k, model_.moe.shared_intermediate > 0);
}

Status AttentionLayers::DenseLayer(int layer, int first, int count) {
  if (count == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Attend(layer, first, count, normed_.data()));
  JANUS_RETURN_IF_ERROR(Ffn(weights_.layers[static_cast<size_t>(layer)].ffn,
                            model_.dense_intermediate, first, count, normed_.data()));
  return Combine(first, count, {}, 0, true);
}

Result<std::span<const float>> AttentionLayers::Logits(std::span<const int32_t> rows) {
  const auto hidden = static_cast<size_t>(model_.hidden);
  const auto vocab = static_cast<size_t>(model_.vocab);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(picked_.data() + i * hidden,
                residual_.data() + static_cast<size_t>(rows[i]) * hidden, hidden * sizeof(float));
  }
  const int count = static_cast<int>(rows.size());
  JANUS_RETURN_IF_ERROR(NormRows(picked_.data(), weights_.final_norm, normed_.data(), count));
  if (logits_.size() < rows.size() * vocab) logits_.resize(rows.size() * vocab);
  JANUS_RETURN_IF_ERROR(Project(stream_, weights_.lm_head,
                                {.x = normed_.data(),
                                 .x_dtype = wire_,
                                 .count = count,
                                 .inputs = model_.hidden,
                                 .outputs = model_.vocab,
                                 .y = logits_.data()}));
  return std::span<const float>(logits_.data(), rows.size() * vocab);
}

}  // namespace janus::dataplane
