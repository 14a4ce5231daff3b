#include "common/model/mixtral.h"

#include "common/model/family.h"

namespace janus {

ModelDescription ReadMixtralConfig(ConfigReader& config) {
  ModelDescription model = ReadSizes(config, 1e-5);
  RefuseAttentionBias(config);
  model.attention = ReadGroupedQueryAttention(config, model.hidden, {.kv_heads = 8, .theta = 1e6});
  ReadExperts(config, "num_local_experts", 8, "num_experts_per_tok", 2, model.moe);
  model.moe.intermediate =
      static_cast<int>(config.Integer("intermediate_size", 1, kMaxIntermediate));
  model.moe.renormalize = true;
  return model;
}

}  // namespace janus
