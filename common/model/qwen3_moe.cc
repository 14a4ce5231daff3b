#include "common/model/qwen3_moe.h"

#include "common/model/family.h"

namespace janus {

ModelDescription ReadQwen3MoeConfig(ConfigReader& config) {
  ModelDescription model = ReadSizes(config, 1e-6);
  RefuseAttentionBias(config);
  model.attention = ReadGroupedQueryAttention(config, model.hidden, {.kv_heads = 4, .theta = 1e4});
  model.attention.norm = QueryKeyNorm::kEachHead;
  RefuseSlidingWindow(config, model.attention);
  ReadExperts(config, config.Either("num_experts", "num_local_experts"), 128, "num_experts_per_tok",
              8, model.moe);
  model.moe.intermediate =
      static_cast<int>(config.IntegerOr("moe_intermediate_size", 768, 1, kMaxIntermediate));
  model.moe.renormalize = config.BoolOr("norm_topk_prob", false);
  ReadSparseSteps(config, model);
  return model;
}

}  // namespace janus
