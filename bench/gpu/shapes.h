#pragma once

// Models for GPU benchmarks, with random weights in bfloat16.

#include <cmath>

#include "common/model/description.h"

namespace janus::bench {

inline ModelDescription DeepSeekV2Lite() {
  ModelDescription model;
  model.family = "deepseek_v2";
  model.architecture = "DeepseekV2ForCausalLM";
  model.dtype = DType::kBFloat16;
  model.vocab = 102400;
  model.hidden = 2048;
  model.layers = 27;
  model.dense_layers = {0};
  model.dense_intermediate = 10944;
  model.max_positions = 4096;
  AttentionDescription& a = model.attention;
  a.heads = a.kv_heads = 16;
  a.head_dim = 192;
  a.scale = 1.0f / std::sqrt(192.0f);
  a.rope.rotary_dim = 64;
  a.rope.pairing = RopePairing::kInterleaved;
  a.latent = LatentDescription{.rank = 512, .value_dim = 128, .query_rank = 0};
  model.moe.experts = 64;
  model.moe.top_k = 6;
  model.moe.intermediate = 1408;
  model.moe.shared_intermediate = 2816;
  return model;
}

inline ModelDescription DeepSeekV2() {
  ModelDescription model = DeepSeekV2Lite();
  model.hidden = 5120;
  model.layers = 60;
  model.dense_intermediate = 12288;
  model.attention.heads = model.attention.kv_heads = 128;
  model.attention.latent->query_rank = 1536;
  model.moe.experts = 160;
  model.moe.groups = 8;
  model.moe.top_groups = 3;
  model.moe.intermediate = 1536;
  model.moe.shared_intermediate = 3072;
  return model;
}

inline ModelDescription DeepSeekV3() {
  ModelDescription model = DeepSeekV2Lite();
  model.vocab = 129280;
  model.hidden = 7168;
  model.layers = 61;
  model.dense_layers = {0, 1, 2};
  model.dense_intermediate = 18432;
  model.attention.heads = model.attention.kv_heads = 128;
  model.attention.latent->query_rank = 1536;
  model.moe.experts = 256;
  model.moe.top_k = 8;
  model.moe.groups = 8;
  model.moe.top_groups = 4;
  model.moe.score = GateScore::kSigmoid;
  model.moe.renormalize = true;
  model.moe.weight_scale = 2.5f;
  model.moe.intermediate = 2048;
  model.moe.shared_intermediate = 2048;
  return model;
}

// Mixtral 8x7B, or its first layers: all 32 take 93 GB.
inline ModelDescription Mixtral(int layers) {
  ModelDescription model;
  model.family = "mixtral";
  model.architecture = "MixtralForCausalLM";
  model.dtype = DType::kBFloat16;
  model.vocab = 32000;
  model.hidden = 4096;
  model.layers = layers;
  model.max_positions = 4096;
  AttentionDescription& a = model.attention;
  a.heads = 32;
  a.kv_heads = 8;
  a.head_dim = 128;
  a.scale = 1.0f / std::sqrt(128.0f);
  a.rope.theta = 1e6;
  a.rope.rotary_dim = 128;
  model.moe.experts = 8;
  model.moe.top_k = 2;
  model.moe.intermediate = 14336;
  model.moe.renormalize = true;
  return model;
}

// The model with `layers` layers, all with experts.
inline ModelDescription OfMoeLayers(ModelDescription model, int layers) {
  model.layers = layers;
  model.dense_layers.clear();
  return model;
}

}  // namespace janus::bench
