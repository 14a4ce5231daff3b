#include "common/model/memory.h"

namespace janus {

int64_t AttentionWeightBytes(const ModelDescription& model) {
  const int64_t hidden = model.hidden;
  const AttentionDescription& a = model.attention;
  const int64_t query = int64_t{a.heads} * a.head_dim;
  const int64_t key_value = int64_t{a.kv_heads} * a.head_dim;
  const int64_t projections = hidden * query * 2 + hidden * key_value * 2;
  const int64_t norms = hidden * 2;
  const int64_t embeddings = int64_t{model.vocab} * hidden * (model.tied_embeddings ? 1 : 2);
  return (embeddings + hidden + (projections + norms) * model.layers) * SizeOf(model.dtype);
}

int64_t GateWeightBytes(const ModelDescription& model) {
  return int64_t{model.layers} * model.moe.experts * model.hidden * SizeOf(model.dtype);
}

int64_t ExpertWeightBytes(const ModelDescription& model) {
  return int64_t{3} * model.hidden * model.moe.intermediate * SizeOf(model.dtype);
}

int64_t KvBytesPerToken(const ModelDescription& model) {
  return int64_t{2} * model.layers * model.attention.kv_heads * model.attention.head_dim *
         SizeOf(model.dtype);
}

}  // namespace janus
