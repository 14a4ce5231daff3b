#include "common/model/qwen2_moe.h"

#include <algorithm>

#include "common/model/family.h"

namespace janus {
namespace {

// transformers writes the kind of each layer; without a sliding window all are full.
void RefuseOtherLayers(ConfigReader& config) {
  for (const std::string& type : config.Strings("layer_types")) {
    if (type == "full_attention") continue;
    config.Fail("layer_types", "'" + type + "' is not supported; supported: full_attention");
  }
}

}  // namespace

ModelDescription ReadQwen2MoeConfig(ConfigReader& config) {
  ModelDescription model = ReadSizes(config, 1e-6);
  RefuseAttentionBias(config);
  model.attention = ReadGroupedQueryAttention(config, model.hidden, {.kv_heads = 16, .theta = 1e4});
  model.attention.has_bias = config.BoolOr("qkv_bias", true);
  RefuseSlidingWindow(config, model.attention);
  RefuseOtherLayers(config);
  MoeDescription& moe = model.moe;
  ReadExperts(config, "num_experts", 60, "num_experts_per_tok", 4, moe);
  moe.intermediate =
      static_cast<int>(config.IntegerOr("moe_intermediate_size", 1408, 1, kMaxIntermediate));
  moe.renormalize = config.BoolOr("norm_topk_prob", false);
  moe.shared_intermediate = static_cast<int>(
      config.IntegerOr("shared_expert_intermediate_size", 5632, 1, kMaxIntermediate));
  moe.has_shared_gate = true;
  ReadSparseSteps(config, model);
  return model;
}

}  // namespace janus
