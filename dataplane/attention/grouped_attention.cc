#include "dataplane/attention/grouped_attention.h"

#include "dataplane/attention/projection.h"
#include "dataplane/attention/rope_table.h"

namespace janus::dataplane {
namespace {

// Workspace to compute the splits of long contexts in parallel. On a GPU it suffices for one row of
// each sequence when the sequences fill the cache; further rows of prompts keep enough blocks busy
// by themselves.
size_t WorkspaceBytes(const AttentionDescription& a, const KvPagePool& cache,
                      const kernels::Place& place, int max_rows) {
  if (place.stream.device != kernels::Device::kCuda) return size_t{4} << 20;
  return static_cast<size_t>(kernels::PagedAttentionStateBytes(
      a.heads, a.head_dim, max_rows, int64_t{cache.num_pages()} * kernels::kPageTokens));
}

int64_t NumFactors(const ModelDescription& model) {
  const auto& temperature = model.attention.temperature;
  return temperature ? temperature->Steps(model.max_positions) : 0;
}

kernels::Buffer FactorsIn(kernels::Context& context, const ModelDescription& model) {
  if (!model.attention.temperature) return {};
  const std::vector<float> factors =
      TemperatureFactors(*model.attention.temperature, model.max_positions);
  return context.AllocateCopyOrNote(factors.data(), factors.size() * sizeof(factors[0]));
}

kernels::Buffer OnesIn(kernels::Context& context, const AttentionDescription& a) {
  if (a.norm != QueryKeyNorm::kTurnedHeads) return {};
  const std::vector<float> ones(static_cast<size_t>(a.head_dim), 1.0f);
  return context.AllocateCopyOrNote(ones.data(), ones.size() * sizeof(ones[0]));
}

}  // namespace

GroupedAttention::GroupedAttention(const ModelDescription& model, const AttentionWeights& weights,
                                   const KvPagePool& cache, const kernels::Place& place,
                                   int max_rows)
    : model_(model),
      weights_(weights),
      cache_(cache),
      q_width_(model.attention.heads * model.attention.head_dim),
      kv_width_(model.attention.kv_heads * model.attention.head_dim),
      inv_freq_(InverseFrequenciesIn(*place.context, model.attention.rope)),
      num_factors_(NumFactors(model)),
      factors_(FactorsIn(*place.context, model)),
      ones_(OnesIn(*place.context, model.attention)),
      qkv_(place.context->AllocateOrNote(static_cast<size_t>(max_rows) *
                                         static_cast<size_t>(q_width_ + 2 * kv_width_) *
                                         sizeof(float))),
      workspace_(
          place.context->AllocateOrNote(WorkspaceBytes(model.attention, cache, place, max_rows))) {}

kernels::KvCache GroupedAttention::View(int layer) const {
  kernels::KvCache view;
  view.pages = cache_.Layer(layer);
  view.num_pages = cache_.num_pages();
  view.page_stride_bytes = static_cast<int64_t>(cache_.page_bytes());
  view.dtype = cache_.dtype();
  view.kv_heads = model_.attention.kv_heads;
  view.head_dim = model_.attention.head_dim;
  return view;
}

Status GroupedAttention::NormHeads(const kernels::Stream& on, const Tensor& weight, int heads,
                                   int groups, float* x, int count) {
  const int64_t width = q_width_ + 2 * kv_width_;
  return Norm(on, weight,
              {.x = x,
               .x_stride = width,
               .y = x,
               .y_stride = width,
               .count = count,
               .groups = groups,
               .size = int64_t{heads / groups} * model_.attention.head_dim,
               .epsilon = model_.norm_epsilon});
}

// Query heads, then key heads, lie one after the other.
Status GroupedAttention::Turn(const kernels::Stream& on, const AttentionRows& rows) {
  const AttentionDescription& a = model_.attention;
  kernels::RopeArgs rope;
  rope.x = qkv_.as<float>();
  rope.positions = rows.positions;
  rope.inv_freq = inv_freq_.as<float>();
  rope.attention_factor = a.rope.attention_factor;
  rope.rows = rows.count;
  rope.heads = a.heads + a.kv_heads;
  rope.head_dim = a.head_dim;
  rope.rotary_dim = a.rope.rotary_dim;
  rope.pairing = a.rope.pairing;
  rope.row_stride = q_width_ + 2 * kv_width_;
  JANUS_RETURN_IF_ERROR(kernels::Rope(on, rope));
  if (a.norm != QueryKeyNorm::kTurnedHeads) return OkStatus();
  return NormHeads(on, {.data = ones_.data()}, rope.heads, rope.heads, rope.x, rows.count);
}

Status GroupedAttention::ProjectRows(const kernels::Stream& on, int layer,
                                     const AttentionRows& rows, const void* x) {
  const AttentionDescription& a = model_.attention;
  const AttentionLayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const int64_t width = q_width_ + 2 * kv_width_;
  auto* const q = qkv_.as<float>();
  float* k = q + q_width_;
  float* v = k + kv_width_;
  const auto project = [&](const Tensor& weight, const Tensor& bias, float* y, int64_t outputs) {
    return Project(on, weight,
                   {.x = x,
                    .x_dtype = WireType(model_),
                    .count = rows.count,
                    .inputs = model_.hidden,
                    .outputs = outputs,
                    .y = y,
                    .y_stride = width,
                    .bias = bias});
  };
  JANUS_RETURN_IF_ERROR(project(w.q, w.q_bias, q, q_width_));
  JANUS_RETURN_IF_ERROR(project(w.k, w.k_bias, k, kv_width_));
  JANUS_RETURN_IF_ERROR(project(w.v, w.v_bias, v, kv_width_));
  if (HasNormWeights(a.norm)) {
    const bool each = a.norm == QueryKeyNorm::kEachHead;
    JANUS_RETURN_IF_ERROR(NormHeads(on, w.q_norm, a.heads, each ? a.heads : 1, q, rows.count));
    JANUS_RETURN_IF_ERROR(
        NormHeads(on, w.k_norm, a.kv_heads, each ? a.kv_heads : 1, k, rows.count));
  }
  if (a.clip > 0.0f) {
    JANUS_RETURN_IF_ERROR(kernels::Pointwise(on, {.x = q,
                                                  .function = kernels::PointFunction::kClip,
                                                  .limit = a.clip,
                                                  .rows = rows.count,
                                                  .columns = width}));
  }
  if (a.HasRope(layer)) return Turn(on, rows);
  if (!a.temperature) return OkStatus();
  return kernels::ScaleByPosition(on, {.x = q,
                                       .positions = rows.positions,
                                       .factors = factors_.as<float>(),
                                       .num_factors = num_factors_,
                                       .step = a.temperature->floor,
                                       .rows = rows.count,
                                       .columns = q_width_,
                                       .row_stride = width});
}

Status GroupedAttention::Attend(const kernels::Stream& on, int layer, const AttentionRows& rows,
                                const void* x, void* y) {
  JANUS_RETURN_IF_ERROR(ProjectRows(on, layer, rows, x));
  const int64_t width = q_width_ + 2 * kv_width_;

  kernels::KvWriteArgs write;
  write.cache = View(layer);
  write.rows = rows.rows;
  write.keys = qkv_.as<float>() + q_width_;
  write.values = write.keys + kv_width_;
  write.num_rows = rows.count;
  write.key_stride = width;
  write.value_stride = width;
  JANUS_RETURN_IF_ERROR(kernels::KvWrite(on, write));

  kernels::PagedAttentionArgs attention;
  attention.cache = write.cache;
  attention.rows = rows.rows;
  attention.queries = qkv_.as<float>();
  attention.query_stride = width;
  attention.y = y;
  attention.y_dtype = WireType(model_);
  attention.num_rows = rows.count;
  attention.heads = model_.attention.heads;
  attention.scale = model_.attention.scale;
  attention.sliding_window = model_.attention.WindowOf(layer);
  attention.chunk = model_.attention.ChunkOf(layer);
  attention.sinks =
      static_cast<const float*>(weights_.layers[static_cast<size_t>(layer)].sinks.data);
  attention.workspace = workspace_.data();
  attention.workspace_bytes = static_cast<int64_t>(workspace_.size());
  return kernels::PagedAttention(on, attention);
}

}  // namespace janus::dataplane
