#include "common/model/memory.h"

namespace janus {
namespace {

// Elements of one layer's attention: projections and their norms.
int64_t AttentionElements(const ModelDescription& model) {
  const int64_t hidden = model.hidden;
  const AttentionDescription& a = model.attention;
  const int64_t query = int64_t{a.heads} * a.head_dim;
  if (!a.latent) {
    const int64_t key_value = int64_t{a.kv_heads} * a.head_dim;
    const int64_t norms = a.head_norm ? 2 * a.head_dim : 0;
    return hidden * (query * 2 + key_value * 2) + norms;
  }
  const LatentDescription& l = *a.latent;
  const int64_t queries = l.query_rank == 0 ? hidden * query : l.query_rank * (hidden + 1 + query);
  const int64_t latent = hidden * (l.rank + a.rope.rotary_dim) + l.rank;
  const int64_t expand = int64_t{l.rank} * a.heads * (a.nope_dim() + l.value_dim);
  return queries + latent + expand + int64_t{a.heads} * l.value_dim * hidden;
}

}  // namespace

int64_t AttentionWeightBytes(const ModelDescription& model) {
  const int64_t hidden = model.hidden;
  const int64_t embeddings = int64_t{model.vocab} * hidden * (model.tied_embeddings ? 1 : 2);
  const int64_t dense = static_cast<int64_t>(model.dense_layers.size()) * model.dense_intermediate;
  const int64_t shared = int64_t{model.moe_layers()} * model.moe.shared_intermediate;
  return (embeddings + hidden + (AttentionElements(model) + 2 * hidden) * model.layers +
          3 * hidden * (dense + shared)) *
         SizeOf(model.dtype);
}

int64_t GateWeightBytes(const ModelDescription& model) {
  return int64_t{model.moe_layers()} * model.moe.experts * model.hidden * SizeOf(model.dtype);
}

int64_t ExpertWeightBytes(const ModelDescription& model) {
  return int64_t{3} * model.hidden * model.moe.intermediate * SizeOf(model.dtype);
}

int64_t KvBytesPerToken(const ModelDescription& model) {
  const AttentionDescription& a = model.attention;
  const int64_t elements =
      a.latent ? int64_t{a.latent->rank} + a.rope.rotary_dim : int64_t{2} * a.kv_heads * a.head_dim;
  return elements * model.layers * SizeOf(model.dtype);
}

}  // namespace janus
