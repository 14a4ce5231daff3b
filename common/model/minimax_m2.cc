#include "common/model/minimax_m2.h"

#include <algorithm>

#include "common/model/deepseek.h"
#include "common/model/family.h"

namespace janus {
namespace {

// Published files name the elements of a head that turn; transformers 5 writes their share.
double RotaryPart(ConfigReader& config) {
  const int64_t head_dim = config.Integer("head_dim", 2, kMaxHeadDim);
  const int64_t rotary = config.IntegerOr("rotary_dim", head_dim, 2, head_dim);
  return static_cast<double>(rotary) / static_cast<double>(head_dim);
}

// Refuses values that would change the mathematics.
void RefuseOtherForms(ConfigReader& config) {
  for (const std::string_view field : {"use_qk_norm", "use_routing_bias"}) {
    if (!config.BoolOr(field, true)) config.Fail(field, "is false; only true is supported");
  }
  RefuseOtherThan(config, "qk_norm_type", "per_layer");
  RefuseOtherThan(config, "scoring_func", "sigmoid");
  if (config.IntegerOr("shared_intermediate_size", 0, 0, kMaxIntermediate) != 0) {
    config.Fail("shared_intermediate_size", "is not 0; shared experts are not supported here");
  }
  const std::vector<int64_t> types = config.Integers("attn_type_list", 0, 1);
  if (std::find(types.begin(), types.end(), 0) != types.end()) {
    config.Fail("attn_type_list", "has a 0; layers of linear attention are not supported");
  }
}

}  // namespace

ModelDescription ReadMiniMaxM2Config(ConfigReader& config) {
  ModelDescription model = ReadSizes(config, 1e-6);
  RefuseAttentionBias(config);
  RefuseOtherForms(config);
  AttentionDescription& a = model.attention;
  a = ReadGroupedQueryAttention(config, model.hidden,
                                {.kv_heads = 8, .theta = 5e6, .rotary_part = RotaryPart(config)});
  RefuseSlidingWindow(config, a);
  a.norm = QueryKeyNorm::kAllHeads;
  MoeDescription& moe = model.moe;
  ReadExperts(config, config.Either("num_experts", "num_local_experts"), 256, "num_experts_per_tok",
              8, moe);
  moe.intermediate =
      static_cast<int>(config.IntegerOr("intermediate_size", 1536, 1, kMaxIntermediate));
  moe.score = GateScore::kSigmoid;
  moe.renormalize = true;
  return model;
}

}  // namespace janus
