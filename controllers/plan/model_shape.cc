#include "controllers/plan/model_shape.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace janus::controllers {
namespace {

// Latent attention with a query rank, queries of 128 + 64, values of 128 and a latent of 512.
void SetLatent(ModelShape& model, double heads, double query_rank) {
  model.heads = heads;
  model.head_dim = 512 + 64;
  model.head_weights = query_rank * (128 + 64) + 512 * (128 + 128) + 128 * model.hidden;
  model.shared_weights = model.hidden * (query_rank + 512 + 64);
}

ModelShape DeepSeek(const char* name, int layers, int dense, double hidden, int experts, int top_k,
                    double intermediate, double shared, double bytes_per_weight) {
  ModelShape model;
  model.name = name;
  model.layers = layers;
  model.dense_layers = dense;
  model.hidden = hidden;
  model.experts = experts;
  model.top_k = top_k;
  model.intermediate = intermediate;
  model.shared_intermediate = shared;
  model.bytes_per_weight = bytes_per_weight;
  SetLatent(model, 128, 1536);
  return model;
}

ModelShape Grouped(const char* name, int layers, double hidden, double heads, int experts,
                   int top_k, double intermediate, double vocab) {
  ModelShape model;
  model.name = name;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = heads;
  model.kv_heads = 8;
  model.head_dim = 128;
  model.experts = experts;
  model.top_k = top_k;
  model.intermediate = intermediate;
  model.vocab = vocab;
  return model;
}

const std::array<ModelShape, 5>& Presets() {
  static const std::array<ModelShape, 5> presets = [] {
    std::array<ModelShape, 5> models = {
        DeepSeek("deepseek-v2", 59, 1, 5120, 160, 6, 1536, 2 * 1536, 2),
        DeepSeek("deepseek-v3", 58, 3, 7168, 256, 8, 2048, 2048, 1),
        Grouped("mixtral-8x22b", 56, 6144, 48, 8, 2, 16384, 32768),
        Grouped("dbrx", 40, 6144, 48, 16, 4, 10752, 100352),
        Grouped("scaled-moe", 48, 8192, 64, 32, 4, 8192, 100352)};
    models[0].dense_intermediate = 12288;
    models[0].vocab = 102400;
    models[1].dense_intermediate = 18432;
    models[1].vocab = 129280;
    return models;
  }();
  return presets;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

}  // namespace

double ModelShape::AttentionWeights() const {
  if (IsLatent()) return shared_weights + heads * head_weights;
  return 2 * hidden * head_dim * (heads + kv_heads);
}

double ModelShape::AttentionBytes() const {
  const double dense = 3 * hidden * dense_intermediate * dense_layers;
  const double shared = 3 * hidden * shared_intermediate * layers;
  return DenseBytesPerWeight() *
         (AttentionWeights() * (layers + dense_layers) + dense + shared + 2 * vocab * hidden);
}

double ModelShape::KvBytesPerToken(int tensor_parallel) const {
  const double values =
      IsLatent() ? head_dim : 2 * head_dim * std::max(kv_heads / tensor_parallel, 1.0);
  return values * bytes_per_kv_value * (layers + dense_layers);
}

double ModelShape::Fp8BytesPerKvValue() const {
  // A key or value of a head has one scale of 4 bytes. A latent vector has one for each 128
  // elements, and its rope key of 64 elements stays in 16 bits.
  constexpr double kScale = 4, kBlock = 128, kRope = 64;
  if (!IsLatent()) return (head_dim + kScale) / head_dim;
  const double rank = head_dim - kRope;
  return (rank + std::ceil(rank / kBlock) * kScale + 2 * kRope) / head_dim;
}

std::span<const ModelShape> ModelPresets() {
  return Presets();
}

Result<ModelShape> FindModel(std::string_view name) {
  std::string known;
  for (const ModelShape& model : Presets()) {
    if (model.name == Lower(name)) return model;
    known += (known.empty() ? "" : ", ") + model.name;
  }
  return NotFound("no model '" + std::string(name) + "'; known: " + known);
}

}  // namespace janus::controllers
