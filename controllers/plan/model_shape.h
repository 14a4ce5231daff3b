#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/cost.h"
#include "common/status.h"

namespace janus::controllers {

// A model as a plan sees it: only sizes that determine times and bytes.
struct ModelShape {
  std::string name;
  int layers = 0;        // MoE layers
  int dense_layers = 0;  // before the MoE layers; they run on the attention side
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
  double shared_intermediate = 0;  // all shared experts together; they run on the attention side
  double vocab = 0;
  double bytes_per_weight = 2;
  // Of all weights except the routed experts', in memory and in arithmetic; 0: as bytes_per_weight.
  double bytes_per_dense_weight = 0;
  double bytes_per_kv_value = 2;  // Fp8BytesPerKvValue() of a cache in fp8

  bool IsLatent() const { return kv_heads == 0; }
  double DenseBytesPerWeight() const {
    return bytes_per_dense_weight > 0 ? bytes_per_dense_weight : bytes_per_weight;
  }
  double AttentionWeights() const;  // per layer
  double ExpertBytes() const { return 3 * hidden * intermediate * bytes_per_weight; }
  // All that an attention instance holds, over its tensor-parallel GPUs.
  double AttentionBytes() const;
  // Bytes of one position over all layers, on one GPU of `tensor_parallel`. Latents and single kv
  // heads are replicated (MegaScale-Infer eq. 8 and JANUS count the same for tp 1).
  double KvBytesPerToken(int tensor_parallel) const;
  // bytes_per_kv_value of a cache in fp8, with its scales and the part that stays in 16 bits
  // (common/model/memory.h).
  double Fp8BytesPerKvValue() const;

  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};

// DeepSeek-V2 and V3 (from their reports), and the models of MegaScale-Infer, Table 4, with the
// attention of their published configurations. Scaled-MoE's is not published: 64 heads over 8.
std::span<const ModelShape> ModelPresets();

// Finds a preset by name, in any case. NotFound lists the names.
Result<ModelShape> FindModel(std::string_view name);

}  // namespace janus::controllers
