#include "common/model/deepseek_v2.h"

#include <cmath>

#include "common/model/family.h"

namespace janus {
namespace {

// The published softmax scale: head_dim^-0.5, times the square of YaRN's scale over all dimensions.
float SoftmaxScale(ConfigReader& config, const AttentionDescription& attention) {
  double scale = 1.0 / std::sqrt(attention.head_dim);
  if (attention.rope.yarn) {
    double all_dim = config.NumberOr("rope_scaling.mscale_all_dim", 0.0, 0.0, 100.0);
    all_dim = config.NumberOr("rope_parameters.mscale_all_dim", all_dim, 0.0, 100.0);
    const double factor = attention.rope.yarn->factor;
    const double mscale = factor <= 1.0 ? 1.0 : 0.1 * all_dim * std::log(factor) + 1.0;
    scale *= mscale * mscale;
  }
  return static_cast<float>(scale);
}

AttentionDescription ReadLatentAttention(ConfigReader& config) {
  const auto size = [&](std::string_view field, int64_t fallback, int64_t high) {
    return static_cast<int>(config.IntegerOr(field, fallback, 1, high));
  };
  AttentionDescription attention;
  attention.heads = static_cast<int>(config.Integer("num_attention_heads", 1, kMaxHeads));
  attention.kv_heads = size("num_key_value_heads", attention.heads, kMaxHeads);
  if (attention.kv_heads != attention.heads) {
    config.Fail("num_key_value_heads", "is " + std::to_string(attention.kv_heads) +
                                           "; latent attention wants num_attention_heads = " +
                                           std::to_string(attention.heads));
  }
  LatentDescription& latent = attention.latent.emplace();
  latent.rank = size("kv_lora_rank", 512, kMaxLatentRank);
  // Absent or null: queries are projected directly (V2-Lite).
  if (config.Has("q_lora_rank")) latent.query_rank = size("q_lora_rank", 1, kMaxHidden);
  latent.value_dim = size("v_head_dim", 128, kMaxHeadDim);
  const int rotary = size("qk_rope_head_dim", 64, kMaxHeadDim);
  const int nope = size("qk_nope_head_dim", 128, kMaxHeadDim);
  if (rotary % 2 != 0) {
    config.Fail("qk_rope_head_dim",
                "is " + std::to_string(rotary) + "; rope turns pairs, so it must be even");
  }
  attention.head_dim = nope + rotary;
  if (attention.head_dim > kMaxHeadDim) {
    config.Fail("qk_nope_head_dim", "is " + std::to_string(nope) + " beside qk_rope_head_dim = " +
                                        std::to_string(rotary) + "; want at most " +
                                        std::to_string(kMaxHeadDim) + " together");
  }
  attention.rope = ReadRope(config, rotary, 1e4);
  attention.rope.pairing = RopePairing::kInterleaved;
  attention.scale = SoftmaxScale(config, attention);
  return attention;
}

void ReadGroups(ConfigReader& config, MoeDescription& moe) {
  const std::string method = config.StringOr("topk_method", "greedy");
  if (method != "greedy" && method != "group_limited_greedy") {
    config.Fail("topk_method",
                "'" + method + "' is not supported; supported: greedy, group_limited_greedy");
  }
  if (method != "group_limited_greedy") return;
  moe.groups = static_cast<int>(config.Integer("n_group", 1, kMaxGroups));
  moe.top_groups = static_cast<int>(config.Integer("topk_group", 1, moe.groups));
  if (moe.experts % moe.groups != 0) {
    config.Fail("n_group",
                "is " + std::to_string(moe.groups) +
                    ", which does not divide n_routed_experts = " + std::to_string(moe.experts));
    return;
  }
  const int open = moe.experts / moe.groups * moe.top_groups;
  if (open < moe.top_k) {
    config.Fail("topk_group", "is " + std::to_string(moe.top_groups) + ": " + std::to_string(open) +
                                  " experts to choose " + std::to_string(moe.top_k) + " from");
  }
}

MoeDescription ReadMoe(ConfigReader& config) {
  MoeDescription moe;
  if (!config.Has("n_routed_experts")) config.Fail("n_routed_experts", "is missing");
  if (!config.Has("num_experts_per_tok")) config.Fail("num_experts_per_tok", "is missing");
  ReadExperts(config, "n_routed_experts", 1, "num_experts_per_tok", 1, moe);
  moe.intermediate =
      static_cast<int>(config.IntegerOr("moe_intermediate_size", 1407, 1, kMaxIntermediate));
  const int64_t shared = config.IntegerOr("n_shared_experts", 0, 0, 64);
  moe.shared_intermediate = static_cast<int>(shared) * moe.intermediate;
  const std::string scoring = config.StringOr("scoring_func", "softmax");
  if (scoring != "softmax") {
    config.Fail("scoring_func", "'" + scoring + "' is not supported; supported: softmax");
  }
  moe.renormalize = config.BoolOr("norm_topk_prob", false) && moe.top_k > 1;
  const double scale = config.NumberOr("routed_scaling_factor", 1.0, 1e-6, 1e6);
  if (!moe.renormalize) moe.weight_scale = static_cast<float>(scale);
  ReadGroups(config, moe);
  return moe;
}

}  // namespace

ModelDescription ReadDeepseekV2Config(ConfigReader& config) {
  ModelDescription model = ReadSizes(config, 1e-6);
  model.attention = ReadLatentAttention(config);
  model.moe = ReadMoe(config);
  const int64_t first = config.IntegerOr("first_k_dense_replace", 0, 0, model.layers);
  const int64_t step = config.IntegerOr("moe_layer_freq", 1, 1, kMaxLayers);
  ReadDenseLayers(
      config, "first_k_dense_replace",
      [&](int layer) { return layer >= first && layer % step == 0; }, model);
  return model;
}

}  // namespace janus
