#include "dataplane/attention/layers.h"

#include <cmath>
#include <cstring>

#include "kernels/kernels.h"

namespace janus::dataplane {
namespace {

constexpr size_t kAttentionWorkspaceBytes = size_t{4} << 20;

}  // namespace

AttentionLayers::AttentionLayers(const ModelDescription& model, const AttentionWeights& weights,
                                 const KvCache& cache, const kernels::Stream& stream, int max_rows)
    : model_(model),
      weights_(weights),
      cache_(cache),
      stream_(stream),
      wire_(WireType(model)),
      q_width_(model.attention.heads * model.attention.head_dim),
      kv_width_(model.attention.kv_heads * model.attention.head_dim),
      max_rows_(max_rows) {
  const RopeDescription& rope = model.attention.rope;
  for (int i = 0; i < rope.rotary_dim / 2; ++i) {
    // fp32 exponent and power, as the reference implementations compute the table.
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rope.rotary_dim);
    inv_freq_.push_back(1.0f / std::pow(static_cast<float>(rope.theta), exponent));
  }
  const auto rows = static_cast<size_t>(max_rows);
  const auto hidden = static_cast<size_t>(model.hidden);
  const auto wire_bytes = static_cast<size_t>(SizeOf(wire_));
  tokens_.resize(rows);
  positions_.resize(rows);
  rows_.resize(rows);
  residual_.resize(rows * hidden);
  qkv_.resize(rows * static_cast<size_t>(q_width_ + 2 * kv_width_));
  normed_ = AlignedBuffer(rows * hidden * wire_bytes);
  attended_ = AlignedBuffer(rows * static_cast<size_t>(q_width_) * wire_bytes);
  picked_.resize(rows * hidden);
  workspace_ = AlignedBuffer(kAttentionWorkspaceBytes);
}

Status AttentionLayers::Linear(const void* x, const Tensor& weight, int64_t outputs, int64_t inputs,
                               int count, float* y, int64_t y_stride, bool accumulate) {
  kernels::LinearArgs args;
  args.x = x;
  args.x_dtype = wire_;
  args.weight = weight.data;
  args.weight_dtype = weight.dtype;
  args.y = y;
  args.accumulate = accumulate;
  args.rows = count;
  args.outputs = outputs;
  args.inputs = inputs;
  args.y_stride = y_stride;
  return kernels::Linear(stream_, args);
}

Status AttentionLayers::Norm(const float* x, const Tensor& weight, void* y, int count) {
  kernels::RmsNormArgs args;
  args.x = x;
  args.weight = weight.data;
  args.weight_dtype = weight.dtype;
  args.y = y;
  args.y_dtype = wire_;
  args.rows = count;
  args.hidden = model_.hidden;
  args.epsilon = model_.norm_epsilon;
  return kernels::RmsNorm(stream_, args);
}

Status AttentionLayers::Begin(const Batch& batch) {
  batch_rows_ = static_cast<int>(batch.rows.size());
  JANUS_CHECK(batch_rows_ <= max_rows_, batch_rows_, max_rows_);
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const BatchRow& row = batch.rows[i];
    tokens_[i] = row.token;
    positions_[i] = row.position;
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
  const AttentionDescription& a = model_.attention;
  const int64_t width = q_width_ + 2 * kv_width_;
  float* residual = residual_.data() + int64_t{first} * model_.hidden;
  const kernels::KvRow* rows = rows_.data() + first;

  JANUS_RETURN_IF_ERROR(Norm(residual, w.input_norm, normed_.data(), count));
  float* q = qkv_.data();
  float* k = q + q_width_;
  float* v = k + kv_width_;
  JANUS_RETURN_IF_ERROR(
      Linear(normed_.data(), w.q, q_width_, model_.hidden, count, q, width, false));
  JANUS_RETURN_IF_ERROR(
      Linear(normed_.data(), w.k, kv_width_, model_.hidden, count, k, width, false));
  JANUS_RETURN_IF_ERROR(
      Linear(normed_.data(), w.v, kv_width_, model_.hidden, count, v, width, false));

  kernels::RopeArgs rope;  // query heads, then key heads, lie one after the other
  rope.x = q;
  rope.positions = positions_.data() + first;
  rope.inv_freq = inv_freq_.data();
  rope.attention_factor = a.rope.attention_factor;
  rope.rows = count;
  rope.heads = a.heads + a.kv_heads;
  rope.head_dim = a.head_dim;
  rope.rotary_dim = a.rope.rotary_dim;
  rope.row_stride = width;
  JANUS_RETURN_IF_ERROR(kernels::Rope(stream_, rope));

  kernels::KvWriteArgs write;
  write.cache = cache_.Layer(layer);
  write.rows = rows;
  write.keys = k;
  write.values = v;
  write.num_rows = count;
  write.key_stride = width;
  write.value_stride = width;
  JANUS_RETURN_IF_ERROR(kernels::KvWrite(stream_, write));

  kernels::PagedAttentionArgs attention;
  attention.cache = cache_.Layer(layer);
  attention.rows = rows;
  attention.queries = q;
  attention.query_stride = width;
  attention.y = attended_.data();
  attention.y_dtype = wire_;
  attention.num_rows = count;
  attention.heads = a.heads;
  attention.scale = a.scale;
  attention.sliding_window = a.sliding_window;
  attention.workspace = workspace_.data();
  attention.workspace_bytes = static_cast<int64_t>(workspace_.size());
  JANUS_RETURN_IF_ERROR(kernels::PagedAttention(stream_, attention));

  JANUS_RETURN_IF_ERROR(
      Linear(attended_.data(), w.o, model_.hidden, q_width_, count, residual, model_.hidden, true));
  return Norm(residual, w.post_norm, out, count);
}

Status AttentionLayers::AddExperts(int first, int count,
                                   std::span<const void* const> contributions) {
  if (count == 0) return OkStatus();
  kernels::CombineSlotsArgs args;
  args.contributions = contributions.data();
  args.dtype = wire_;
  args.residual = residual_.data() + int64_t{first} * model_.hidden;
  args.y = residual_.data() + int64_t{first} * model_.hidden;
  args.rows = count;
  args.hidden = model_.hidden;
  args.top_k = model_.moe.top_k;
  return kernels::CombineSlots(stream_, args);
}

Result<std::span<const float>> AttentionLayers::Logits(std::span<const int32_t> rows) {
  const auto hidden = static_cast<size_t>(model_.hidden);
  const auto vocab = static_cast<size_t>(model_.vocab);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(picked_.data() + i * hidden,
                residual_.data() + static_cast<size_t>(rows[i]) * hidden, hidden * sizeof(float));
  }
  const int count = static_cast<int>(rows.size());
  JANUS_RETURN_IF_ERROR(Norm(picked_.data(), weights_.final_norm, normed_.data(), count));
  if (logits_.size() < rows.size() * vocab) logits_.resize(rows.size() * vocab);
  JANUS_RETURN_IF_ERROR(Linear(normed_.data(), weights_.lm_head, model_.vocab, model_.hidden, count,
                               logits_.data(), model_.vocab, false));
  return std::span<const float>(logits_.data(), rows.size() * vocab);
}

}  // namespace janus::dataplane
