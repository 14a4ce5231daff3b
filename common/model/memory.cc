#include "common/model/memory.h"

#include <algorithm>

namespace janus {
namespace {

// What queries are multiplied by in layers without rope.
int64_t TemperatureBytes(const ModelDescription& model) {
  const auto& temperature = model.attention.temperature;
  return temperature ? temperature->Steps(model.max_positions) * 4 : 0;
}

// Elements of one layer's attention: projections and their norms.
int64_t AttentionElements(const ModelDescription& model) {
  const int64_t hidden = model.hidden;
  const AttentionDescription& a = model.attention;
  const int64_t query = int64_t{a.heads} * a.head_dim;
  if (!a.latent) {
    const int64_t key_value = int64_t{a.kv_heads} * a.head_dim;
    const int64_t norms = a.norm == QueryKeyNorm::kEachHead   ? 2 * a.head_dim
                          : a.norm == QueryKeyNorm::kAllHeads ? query + key_value
                                                              : 0;
    const int64_t biases =
        (a.has_bias ? query + 2 * key_value : 0) + (a.has_output_bias ? hidden : 0);
    return hidden * (query * 2 + key_value * 2) + norms + biases;
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
  const int64_t shared_gates = model.moe.has_shared_gate ? model.moe_layers() : 0;
  const int64_t sinks =
      model.attention.has_sinks ? int64_t{model.layers} * model.attention.heads : 0;
  return (embeddings + hidden + (AttentionElements(model) + 2 * hidden) * model.layers +
          hidden * (3 * (dense + shared) + shared_gates)) *
             SizeOf(model.dtype) +
         sinks * static_cast<int64_t>(sizeof(float));
}

int64_t LargestAttentionTensorBytes(const ModelDescription& model) {
  const int64_t hidden = model.hidden;
  const AttentionDescription& a = model.attention;
  const LatentDescription l = a.latent.value_or(LatentDescription());
  const int64_t query = int64_t{a.heads} * a.head_dim;
  const int64_t expanded = a.latent ? int64_t{a.heads} * (a.nope_dim() + l.value_dim) : 0;
  // Keys and values have fewer heads than queries, and a latent query's parts have fewer inputs.
  const int64_t elements =
      std::max({int64_t{model.vocab} * hidden, query * (l.query_rank > 0 ? l.query_rank : hidden),
                hidden * (a.latent ? int64_t{a.heads} * l.value_dim : query), l.query_rank * hidden,
                (int64_t{l.rank} + a.rope.rotary_dim) * hidden, expanded * l.rank,
                int64_t{model.dense_layers.empty() ? 0 : model.dense_intermediate} * hidden,
                int64_t{model.moe.shared_intermediate} * hidden});
  return elements * SizeOf(model.dtype);
}

int64_t GateWeightBytes(const ModelDescription& model) {
  const int64_t bias = model.moe.has_gate_bias() ? static_cast<int64_t>(sizeof(float)) : 0;
  return int64_t{model.moe_layers()} * model.moe.experts *
         (model.hidden * SizeOf(model.dtype) + bias);
}

int64_t ExpertWeightBytes(const ModelDescription& model) {
  const int64_t weights = int64_t{3} * model.hidden * model.moe.intermediate;
  const DType type = ExpertType(model);
  int64_t scale_bytes = 0;
  if (type == DType::kMxfp4) scale_bytes = weights / kMxBlock;
  if (type == DType::kFloat8E4M3) {
    scale_bytes = int64_t{3} * ScaleBlocks(model.hidden) * ScaleBlocks(model.moe.intermediate) *
                  static_cast<int64_t>(sizeof(float));
  }
  const int64_t biases =
      model.moe.has_expert_bias ? int64_t{2} * model.moe.intermediate + model.hidden : 0;
  return BytesOf(type, weights) + scale_bytes + biases * static_cast<int64_t>(sizeof(float));
}

int64_t AttentionWorkspaceBytes(const ModelDescription& model, int rows, int batch, int threads,
                                Compression compression, bool sums) {
  const int64_t hidden = model.hidden;
  const AttentionDescription& a = model.attention;
  const int64_t query = int64_t{a.heads} * a.head_dim;
  // Keys and values of a row; for latent attention the latent vectors and, for 64 rows at a time,
  // queries and results in the latent space.
  const int64_t key_value = a.latent ? a.latent->rank + a.rope.rotary_dim + 2 * a.latent->query_rank
                                     : int64_t{2} * a.kv_heads * a.head_dim;
  const int64_t absorbed =
      a.latent ? int64_t{std::min(rows, 64)} * a.heads * a.latent->rank * 2 : 0;
  // The dense FFN, or the shared experts beside the routed ones.
  const int64_t local = std::max(model.dense_intermediate, model.moe.shared_intermediate);
  const int64_t wire = SizeOf(WireType(model));
  constexpr int64_t kFloat = 4;
  constexpr int64_t kPartials = int64_t{4} << 20;  // for attention's splits
  constexpr int64_t kRowOverhead = 64;             // token, position, pages
  const int64_t unpacked = compression == Compression::kNone
                               ? 0
                               : (1 + (sums ? 1 : int64_t{model.moe.top_k})) * hidden * wire;
  const int64_t per_row = unpacked + kFloat * ((local > 0 ? 3 : 2) * hidden + query + key_value) +
                          wire * (hidden + query + local) + int64_t{model.moe.top_k} * 8 +
                          kRowOverhead;
  // Sorting a distribution takes a value, a probability and an index per token of the vocabulary.
  const int64_t sampling = int64_t{threads} * model.vocab * 12;
  return rows * per_row + kFloat * (absorbed + batch * int64_t{model.vocab}) + sampling +
         kPartials + TemperatureBytes(model);
}

int64_t ExpertWorkspaceBytes(const ModelDescription& model, int senders, int rows,
                             Compression compression, bool sums) {
  const int64_t contributions = int64_t{senders} * rows * model.moe.top_k;
  const int64_t wire = SizeOf(WireType(model));
  // Per assignment: expert, weight, replica, and the grouped operation's two pointers and weight.
  constexpr int64_t kAssignment = 48;
  constexpr int64_t kFloat = 4;
  const bool is_packed = compression != Compression::kNone;
  const int64_t unpacked = (is_packed ? int64_t{senders} * rows : 0) * model.hidden * wire;
  // The end of each sum in its contributions lies beside them.
  const int64_t terms = sums        ? contributions * model.hidden * kFloat + senders * rows * 4
                        : is_packed ? contributions * model.hidden * wire
                                    : 0;
  return unpacked + terms + contributions * (model.moe.intermediate * wire + kAssignment) +
         rows * (model.moe.experts * kFloat + 8);
}

int64_t KvBytesPerToken(const ModelDescription& model) {
  const AttentionDescription& a = model.attention;
  const int64_t elements =
      a.latent ? int64_t{a.latent->rank} + a.rope.rotary_dim : int64_t{2} * a.kv_heads * a.head_dim;
  return elements * model.layers * SizeOf(model.dtype);
}

int64_t Fp8KvBytesPerToken(const ModelDescription& model) {
  constexpr int64_t kScale = 4;
  const AttentionDescription& a = model.attention;
  if (!a.latent) return int64_t{2} * a.kv_heads * (a.head_dim + kScale) * model.layers;
  // In whole words: the latent vector, its blocks' scales, the rope key.
  const int64_t rank = a.latent->rank;
  return ((rank + 3) / 4 * 4 + ScaleBlocks(rank) * kScale + (a.rope.rotary_dim + 1) / 2 * 4) *
         model.layers;
}

}  // namespace janus
