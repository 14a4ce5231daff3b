#include "common/model/glm4_moe.h"

#include "common/model/deepseek.h"
#include "common/model/family.h"

namespace janus {

ModelDescription ReadGlm4MoeConfig(ConfigReader& config) {
  ModelDescription model = ReadSizes(config, 1e-5);
  model.attention = ReadGroupedQueryAttention(config, model.hidden,
                                              {.kv_heads = 8, .theta = 1e4, .rotary_part = 0.5});
  model.attention.sliding_window = 0;
  if (config.Has("sliding_window")) {
    config.Fail("sliding_window", "is not supported for this family");
  }
  model.attention.has_bias = config.BoolOr("attention_bias", false);
  if (config.BoolOr("use_qk_norm", false)) model.attention.norm = QueryKeyNorm::kEachHead;
  MoeDescription& moe = model.moe;
  ReadExperts(config, config.Either("num_local_experts", "n_routed_experts"), 128,
              "num_experts_per_tok", 8, moe);
  ReadExpertSizes(config, 1408, 1, moe);
  ReadSigmoidChoice(config, {.groups = 1, .top_groups = 1, .weight_scale = 1.0}, moe);
  ReadFirstDenseLayers(config, 1, model);
  return model;
}

}  // namespace janus
