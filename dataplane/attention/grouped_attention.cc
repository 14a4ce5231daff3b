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

Status GroupedAttention::ProjectRows(const kernels::Stream& on, const AttentionLayerWeights& w,
                                     const AttentionRows& rows, const void* x) {
  const AttentionDescription& a = model_.attention;
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
  if (a.norm != QueryKeyNorm::kNone) {
    const auto norm = [&](const Tensor& weight, float* x, int heads) {
      const int groups = a.norm == QueryKeyNorm::kEachHead ? heads : 1;
      return Norm(on, weight,
                  {.x = x,
                   .x_stride = width,
                   .y = x,
                   .y_stride = width,
                   .count = rows.count,
                   .groups = groups,
                   .size = int64_t{heads / groups} * a.head_dim,
                   .epsilon = model_.norm_epsilon});
    };
    JANUS_RETURN_IF_ERROR(norm(w.q_norm, q, a.heads));
    JANUS_RETURN_IF_ERROR(norm(w.k_norm, k, a.kv_heads));
  }
  if (a.clip > 0.0f) {
    JANUS_RETURN_IF_ERROR(kernels::Pointwise(on, {.x = q,
                                                  .function = kernels::PointFunction::kClip,
                                                  .limit = a.clip,
                                                  .rows = rows.count,
                                                  .columns = width}));
  }
  kernels::RopeArgs rope;  // query heads, then key heads, lie one after the other
  rope.x = q;
  rope.positions = rows.positions;
  rope.inv_freq = inv_freq_.as<float>();
  rope.attention_factor = a.rope.attention_factor;
  rope.rows = rows.count;
  rope.heads = a.heads + a.kv_heads;
  rope.head_dim = a.head_dim;
  rope.rotary_dim = a.rope.rotary_dim;
  rope.pairing = a.rope.pairing;
  rope.row_stride = width;
  return kernels::Rope(on, rope);
}

Status GroupedAttention::Attend(const kernels::Stream& on, int layer, const AttentionRows& rows,
                                const void* x, void* y) {
  JANUS_RETURN_IF_ERROR(ProjectRows(on, weights_.layers[static_cast<size_t>(layer)], rows, x));
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
  attention.sinks =
      static_cast<const float*>(weights_.layers[static_cast<size_t>(layer)].sinks.data);
  attention.workspace = workspace_.data();
  attention.workspace_bytes = static_cast<int64_t>(workspace_.size());
  return kernels::PagedAttention(on, attention);
}

}  // namespace janus::dataplane
