#include "tests/support/place_attention.h"

#include <utility>

namespace janus::dataplane {
namespace {

Status PlaceLayer(TensorPlacer& placer, const ModelDescription& model, int index,
                  AttentionLayerWeights& layer) {
  const AttentionDescription& a = model.attention;
  const int64_t h = model.hidden;
  const int64_t q = int64_t{a.heads} * a.head_dim;
  const int64_t kv = int64_t{a.kv_heads} * a.head_dim;
  // The other tensors belong to latent attention, and are null without it.
  const LatentDescription l = a.latent.value_or(LatentDescription());
  const int64_t attended = a.latent ? int64_t{a.heads} * l.value_dim : q;
  const int64_t expanded = a.latent ? int64_t{a.heads} * (a.nope_dim() + l.value_dim) : 0;
  const bool each_head = a.norm == QueryKeyNorm::kEachHead;
  const std::pair<Tensor*, int64_t> tensors[] = {
      {&layer.input_norm, h},
      {&layer.q, q * (l.query_rank > 0 ? l.query_rank : h)},
      {&layer.o, h * attended},
      {&layer.post_norm, h},
      {&layer.k, kv * h},
      {&layer.v, kv * h},
      {&layer.q_bias, q},
      {&layer.k_bias, kv},
      {&layer.v_bias, kv},
      {&layer.o_bias, h},
      {&layer.sinks, a.heads},
      {&layer.q_norm, each_head ? a.head_dim : q},
      {&layer.k_norm, each_head ? a.head_dim : kv},
      {&layer.q_a, l.query_rank * h},
      {&layer.q_a_norm, l.query_rank},
      {&layer.kv_a, (l.rank + a.rope.rotary_dim) * h},
      {&layer.kv_a_norm, l.rank},
      {&layer.kv_b, expanded * l.rank},
      {&layer.shared_gate, h},
  };
  layer.moe_gate = layer.moe_gate_bias = Tensor();  // as a worker with a device has it
  for (const auto& [tensor, elements] : tensors) {
    JANUS_RETURN_IF_ERROR(placer.Place(*tensor, elements));
  }
  return placer.Place(
      layer.ffn, h,
      model.IsDense(index) ? model.dense_intermediate : model.moe.shared_intermediate);
}

}  // namespace

Result<Placed<AttentionWeights>> PlaceAttention(kernels::Uploader& uploader,
                                                const ModelDescription& model,
                                                const AttentionWeights& weights,
                                                std::stop_token stop) {
  Placed<AttentionWeights> placed{weights, {}, nullptr};
  if (uploader.context().is_host()) return placed;
  TensorPlacer placer(uploader, nullptr, std::move(stop), placed.tensors);
  AttentionWeights& w = placed.weights;
  const int64_t table = int64_t{model.vocab} * model.hidden;
  JANUS_RETURN_IF_ERROR(placer.Place(w.embedding, table));
  JANUS_RETURN_IF_ERROR(placer.Place(w.final_norm, model.hidden));
  JANUS_RETURN_IF_ERROR(placer.Place(w.lm_head, table));
  for (int l = 0; l < model.layers; ++l) {
    JANUS_RETURN_IF_ERROR(PlaceLayer(placer, model, l, w.layers[static_cast<size_t>(l)]));
  }
  JANUS_ASSIGN_OR_RETURN(placed.loaded, uploader.Loaded());
  return placed;
}

}  // namespace janus::dataplane
