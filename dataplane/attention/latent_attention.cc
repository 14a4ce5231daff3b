#include "dataplane/attention/latent_attention.h"

#include <algorithm>

#include "dataplane/attention/projection.h"
#include "dataplane/attention/rope_table.h"

namespace janus::dataplane {
namespace {

// Rows that are in the latent space at a time. A row is heads * rank wide there (256 KB for
// DeepSeek-V2). 64 rows are enough to share the reads of the expansion weights.
constexpr int kAbsorbedRows = 64;
// Areas of ExpandedAttention's workspace on a GPU, one for each running block: about as many as a
// GPU has multiprocessors.
constexpr int kDeviceAreas = 128;

bool SharesExpansion(const AttentionDescription& a, const kernels::LatentCache& view,
                     DType expand_dtype, const kernels::Place& place) {
  return place.stream.device == kernels::Device::kCuda &&
         kernels::HasSharedExpansion(view, expand_dtype, a.nope_dim(), a.latent->value_dim);
}
// Expanding costs a GPU fewer multiplications. But for some caches only absorbed queries have a
// kernel on the tensor cores, which is far faster.
bool AbsorbsPrompts(const AttentionDescription& a, const kernels::LatentCache& view,
                    DType expand_dtype, const kernels::Place& place) {
  return place.stream.device == kernels::Device::kCuda &&
         kernels::HasAbsorbedStates(view, a.heads) &&
         !SharesExpansion(a, view, expand_dtype, place);
}

// Bytes for both forms, which run one after the other. On a GPU the absorbed form needs room for
// the splits of one row of each sequence when the sequences fill the cache, with as many rows as
// one call has. On a CPU it needs none.
struct Workspace {
  int64_t expanded;  // not more, so that an expanded chunk stays in the CPU's cache
  int64_t absorbed;
};
Workspace WorkspaceOf(const AttentionDescription& a, const kernels::LatentCache& view,
                      DType expand_dtype, const kernels::Place& place, int max_rows) {
  const bool on_device = place.stream.device == kernels::Device::kCuda;
  const int team = place.stream.team == nullptr ? 1 : place.stream.team->size();
  int64_t expanded = 0;
  if (SharesExpansion(a, view, expand_dtype, place)) {
    expanded = kernels::SharedExpansionBytes(a.heads, max_rows);
  } else if (!AbsorbsPrompts(a, view, expand_dtype, place)) {
    expanded = kernels::ExpandedAttentionWorkspaceBytes(a.head_dim, a.latent->value_dim,
                                                        on_device ? kDeviceAreas : team);
  }
  const int64_t absorbed = on_device ? kernels::AbsorbedAttentionStateBytes(
                                           view, a.heads, std::min(max_rows, kAbsorbedRows),
                                           view.num_pages * kernels::kPageTokens)
                                     : 0;
  return {expanded, absorbed};
}

}  // namespace

LatentAttention::LatentAttention(const ModelDescription& model, const AttentionWeights& weights,
                                 const KvPagePool& cache, const kernels::Place& place, int max_rows)
    : model_(model),
      latent_(*model.attention.latent),
      weights_(weights),
      cache_(cache),
      q_width_(int64_t{model.attention.heads} * model.attention.head_dim),
      entry_width_(int64_t{latent_.rank} + model.attention.rope.rotary_dim),
      absorbs_prompts_(
          AbsorbsPrompts(model.attention, View(0), weights.layers.front().kv_b.dtype, place)),
      inv_freq_(InverseFrequenciesIn(*place.context, model.attention.rope)) {
  const auto rows = static_cast<size_t>(max_rows);
  const auto query_rank = static_cast<size_t>(latent_.query_rank);
  kernels::Context& context = *place.context;
  const auto floats = [&](size_t count) { return context.AllocateOrNote(count * sizeof(float)); };
  query_latents_ = floats(rows * query_rank);
  normed_queries_ =
      context.AllocateOrNote(rows * query_rank * static_cast<size_t>(SizeOf(WireType(model))));
  queries_ = floats(rows * static_cast<size_t>(q_width_));
  entries_ = floats(rows * static_cast<size_t>(entry_width_));
  const size_t in_latent_space = std::min<size_t>(rows, kAbsorbedRows) *
                                 static_cast<size_t>(model.attention.heads) *
                                 static_cast<size_t>(latent_.rank);
  absorbed_ = floats(in_latent_space);
  attended_ = floats(in_latent_space);
  const Workspace workspace =
      WorkspaceOf(model.attention, View(0), weights.layers.front().kv_b.dtype, place, max_rows);
  expanded_bytes_ = workspace.expanded;
  workspace_ =
      context.AllocateOrNote(static_cast<size_t>(std::max(workspace.expanded, workspace.absorbed)));
}

kernels::LatentCache LatentAttention::View(int layer) const {
  kernels::LatentCache view;
  view.pages = cache_.Layer(layer);
  view.num_pages = cache_.num_pages();
  view.page_stride_bytes = static_cast<int64_t>(cache_.page_bytes());
  view.dtype = cache_.dtype();
  view.rank = latent_.rank;
  view.rope = model_.attention.rope.rotary_dim;
  return view;
}

Status LatentAttention::Attend(const kernels::Stream& on, int layer, const AttentionRows& rows,
                               const void* x, void* y) {
  JANUS_RETURN_IF_ERROR(ProjectQueries(on, weights_.layers[static_cast<size_t>(layer)], rows, x));
  JANUS_RETURN_IF_ERROR(WriteLatents(on, layer, rows, x));
  for (int first = 0; first < rows.count;) {
    int end = first + 1;
    const bool is_expanded = IsExpanded(rows.classes[first]);
    const int most = is_expanded ? rows.count : std::min(rows.count, first + kAbsorbedRows);
    while (end < most && IsExpanded(rows.classes[end]) == is_expanded) ++end;
    JANUS_RETURN_IF_ERROR(is_expanded ? Expanded(on, layer, rows, first, end - first, y)
                                      : Absorbed(on, layer, rows, first, end - first, y));
    first = end;
  }
  return OkStatus();
}

Status LatentAttention::Turn(const kernels::Stream& on, const AttentionRows& rows, float* x,
                             int heads, int64_t row_stride) const {
  const AttentionDescription& a = model_.attention;
  kernels::RopeArgs rope;
  rope.x = x;
  rope.positions = rows.positions;
  rope.inv_freq = inv_freq_.as<float>();
  rope.attention_factor = a.rope.attention_factor;
  rope.rows = rows.count;
  rope.heads = heads;
  rope.head_dim = a.head_dim;
  rope.rotary_dim = a.rope.rotary_dim;
  rope.pairing = a.rope.pairing;
  rope.row_stride = row_stride;
  return kernels::Rope(on, rope);
}

Status LatentAttention::ProjectQueries(const kernels::Stream& on, const AttentionLayerWeights& w,
                                       const AttentionRows& rows, const void* x) {
  const DType wire = WireType(model_);
  Projection project{.x = x,
                     .x_dtype = wire,
                     .count = rows.count,
                     .inputs = model_.hidden,
                     .outputs = q_width_,
                     .y = queries_.as<float>()};
  if (latent_.query_rank > 0) {
    Projection down = project;
    down.outputs = latent_.query_rank;
    down.y = query_latents_.as<float>();
    JANUS_RETURN_IF_ERROR(Project(on, w.q_a, down));
    JANUS_RETURN_IF_ERROR(Norm(on, w.q_a_norm,
                               {.x = query_latents_.as<float>(),
                                .y = normed_queries_.data(),
                                .y_dtype = wire,
                                .count = rows.count,
                                .size = latent_.query_rank,
                                .epsilon = latent_.norm_epsilon}));
    project.x = normed_queries_.data();
    project.inputs = latent_.query_rank;
  }
  JANUS_RETURN_IF_ERROR(Project(on, w.q, project));
  const AttentionDescription& a = model_.attention;
  return Turn(on, rows, queries_.as<float>() + a.nope_dim(), a.heads, q_width_);
}

Status LatentAttention::WriteLatents(const kernels::Stream& on, int layer,
                                     const AttentionRows& rows, const void* x) {
  const AttentionLayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  JANUS_RETURN_IF_ERROR(Project(on, w.kv_a,
                                {.x = x,
                                 .x_dtype = WireType(model_),
                                 .count = rows.count,
                                 .inputs = model_.hidden,
                                 .outputs = entry_width_,
                                 .y = entries_.as<float>()}));
  JANUS_RETURN_IF_ERROR(Norm(on, w.kv_a_norm,
                             {.x = entries_.as<float>(),
                              .x_stride = entry_width_,
                              .y = entries_.as<float>(),
                              .y_stride = entry_width_,
                              .count = rows.count,
                              .size = latent_.rank,
                              .epsilon = latent_.norm_epsilon}));
  JANUS_RETURN_IF_ERROR(Turn(on, rows, entries_.as<float>() + latent_.rank, 1, entry_width_));
  kernels::LatentWriteArgs write;
  write.cache = View(layer);
  write.rows = rows.rows;
  write.entries = entries_.as<float>();
  write.num_rows = rows.count;
  return kernels::LatentWrite(on, write);
}

Status LatentAttention::Expanded(const kernels::Stream& on, int layer, const AttentionRows& rows,
                                 int first, int count, void* y) {
  const AttentionDescription& a = model_.attention;
  const Tensor& expand = weights_.layers[static_cast<size_t>(layer)].kv_b;
  const DType wire = WireType(model_);
  kernels::ExpandedAttentionArgs args;
  args.cache = View(layer);
  args.rows = rows.rows + first;
  args.queries = queries_.as<float>() + first * q_width_;
  args.expand = expand.data;
  args.expand_dtype = expand.dtype;
  args.y = static_cast<std::byte*>(y) + first * AttendedWidth(a) * SizeOf(wire);
  args.y_dtype = wire;
  args.num_rows = count;
  args.heads = a.heads;
  args.nope_dim = a.nope_dim();
  args.value_dim = latent_.value_dim;
  args.scale = a.scale;
  args.key_blocks = kernels::KeyBlocksOf(rows.on_host + first, count);
  args.workspace = workspace_.data();
  args.workspace_bytes = expanded_bytes_;
  return kernels::ExpandedAttention(on, args);
}

Status LatentAttention::Absorbed(const kernels::Stream& on, int layer, const AttentionRows& rows,
                                 int first, int count, void* y) {
  const AttentionDescription& a = model_.attention;
  const Tensor& expand = weights_.layers[static_cast<size_t>(layer)].kv_b;
  const DType wire = WireType(model_);
  const int64_t latent_width = int64_t{a.heads} * latent_.rank;
  float* absorbed = absorbed_.as<float>();
  float* attended = attended_.as<float>();

  // q_latent = expand_key^T q
  kernels::HeadLinearArgs into;
  into.x = queries_.as<float>() + first * q_width_;
  into.weight = expand.data;
  into.weight_dtype = expand.dtype;
  into.transposed = true;
  into.y = absorbed;
  into.rows = count;
  into.heads = a.heads;
  into.outputs = latent_.rank;
  into.inputs = a.nope_dim();
  into.x_row_stride = q_width_;
  into.x_head_stride = a.head_dim;
  into.y_row_stride = latent_width;
  into.y_head_stride = latent_.rank;
  into.weight_head_stride = int64_t{latent_.rank} * (a.nope_dim() + latent_.value_dim);
  JANUS_RETURN_IF_ERROR(kernels::HeadLinear(on, into));

  kernels::AbsorbedAttentionArgs attention;
  attention.cache = View(layer);
  attention.rows = rows.rows + first;
  attention.latent_queries = absorbed;
  attention.rope_queries = queries_.as<float>() + first * q_width_ + a.nope_dim();
  attention.rope_query_row_stride = q_width_;
  attention.rope_query_head_stride = a.head_dim;
  attention.y = attended;
  attention.num_rows = count;
  attention.heads = a.heads;
  attention.scale = a.scale;
  attention.workspace = workspace_.data();
  attention.workspace_bytes = static_cast<int64_t>(workspace_.size());
  JANUS_RETURN_IF_ERROR(kernels::AbsorbedAttention(on, attention));

  // y = expand_value attended
  kernels::HeadLinearArgs out = into;
  out.x = attended;
  out.weight = static_cast<const std::byte*>(expand.data) +
               int64_t{a.nope_dim()} * latent_.rank * SizeOf(expand.dtype);
  out.transposed = false;
  out.y = static_cast<std::byte*>(y) + first * AttendedWidth(a) * SizeOf(wire);
  out.y_dtype = wire;
  out.outputs = latent_.value_dim;
  out.inputs = latent_.rank;
  out.x_row_stride = latent_width;
  out.x_head_stride = latent_.rank;
  out.y_row_stride = AttendedWidth(a);
  out.y_head_stride = latent_.value_dim;
  return kernels::HeadLinear(on, out);
}

}  // namespace janus::dataplane
