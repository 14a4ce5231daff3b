#pragma once

#include "common/model/description.h"

namespace janus::control {

// Small enough to fit every plan.
inline ModelDescription SmallModel() {
  ModelDescription model;
  model.architecture = "MixtralForCausalLM";
  model.dtype = DType::kBFloat16;
  model.vocab = 512;
  model.hidden = 64;
  model.layers = 4;
  model.max_positions = 512;
  model.attention.heads = 8;
  model.attention.kv_heads = 2;
  model.attention.head_dim = 8;
  model.moe.experts = 8;
  model.moe.top_k = 2;
  model.moe.intermediate = 96;
  return model;
}

}  // namespace janus::control
