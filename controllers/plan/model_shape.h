#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/cost.h"
#include "common/status.h"

namespace janus::controllers {

// A model as a plan sees it: sizes that set times and bytes, nothing of names or mathematics.
struct ModelShape {
  std::string name;
  int layers = 0;        // MoE layers
  int dense_layers = 0;  // before them, wholly on the attention side
  int dense_intermediate = 0;
  double hidden = 0;  // H
  double heads = 0;
  double kv_heads = 0;             // grouped-query attention; 0: latent
  double head_dim = 0;             // grouped; latent: values per position and layer in the cache
  double head_weights = 0;         // latent: weights of one head's projections
  double shared_weights = 0;       // latent: weights of the projections that heads share
  int experts = 0;                 // E
  int top_k = 0;                   // K
  double intermediate = 0;         // of one expert
  double shared_intermediate = 0;  // of the shared experts together, run on the attention side
  double vocab = 0;
  double bytes_per_weight = 2;
  // Of all weights but the routed experts', and of what is computed; 0: as bytes_per_weight.
  double bytes_per_dense_weight = 0;
  double bytes_per_kv_value = 2;  // Fp8BytesPerKvValue() of a cache in fp8

  bool IsLatent() const { return kv_heads == 0; }
  double DenseBytesPerWeight() const {
    return bytes_per_dense_weight > 0 ? bytes_per_dense_weight : bytes_per_weight;
  }
  double AttentionWeights() const;  // per layer
  double ExpertBytes() const { return 3 * hidden * intermediate * bytes_per_weight; }
  // Everything an attention instance holds, all tensor-parallel parts together.
  double AttentionBytes() const;
  // One position over all layers, on one GPU of `tensor_parallel`: latents and single kv heads are
  // replicated (MegaScale-Infer eq. 8 and JANUS count the same for tp 1).
  double KvBytesPerToken(int tensor_parallel) const;
  // bytes_per_kv_value of a cache in fp8, its scales and what it keeps in 16 bits among them
  // (common/model/memory.h).
  double Fp8BytesPerKvValue() const;

  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};

// DeepSeek-V2 and V3 (their reports), and the models of MegaScale-Infer, Table 4, with the
// attention of their published configurations; Scaled-MoE's is not published: 64 heads over 8.
std::span<const ModelShape> ModelPresets();

// By name, any case. NotFound lists the names.
Result<ModelShape> FindModel(std::string_view name);

}  // namespace janus::controllers
