#include "common/model/olmoe.h"

#include "common/model/family.h"

namespace janus {

ModelDescription ReadOlmoeConfig(ConfigReader& config) {
  ModelDescription model = ReadSizes(config, 1e-5);
  RefuseAttentionBias(config);
  AttentionDescription& a = model.attention;
  a = ReadGroupedQueryAttention(config, model.hidden, {.kv_heads = 0, .theta = 1e4});
  RefuseSlidingWindow(config, a);
  // transformers takes the norms' sizes from hidden_size.
  if (a.heads * a.head_dim != model.hidden) {
    config.Fail("head_dim", "is " + std::to_string(a.head_dim) +
                                "; this family wants hidden_size / num_attention_heads");
  }
  a.norm = QueryKeyNorm::kAllHeads;
  if (config.Has("clip_qkv")) {
    a.clip = static_cast<float>(config.NumberOr("clip_qkv", 1.0, 1e-6, 1e6));
  }
  ReadExperts(config, config.Either("num_local_experts", "num_experts"), 64, "num_experts_per_tok",
              8, model.moe);
  model.moe.intermediate =
      static_cast<int>(config.IntegerOr("intermediate_size", 2048, 1, kMaxIntermediate));
  model.moe.renormalize = config.BoolOr("norm_topk_prob", false);
  return model;
}

}  // namespace janus
