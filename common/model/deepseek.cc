#include "common/model/deepseek.h"

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

}  // namespace

AttentionDescription ReadLatentAttention(ConfigReader& config) {
  const auto size = [&](std::string_view field, int64_t fallback, int64_t high) {
    return static_cast<int>(config.IntegerOr(field, fallback, 1, high));
  };
  RefuseAttentionBias(config);
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

void ReadExpertSizes(ConfigReader& config, int default_intermediate, int default_shared,
                     MoeDescription& moe) {
  moe.intermediate = static_cast<int>(
      config.IntegerOr("moe_intermediate_size", default_intermediate, 1, kMaxIntermediate));
  const int64_t shared = config.IntegerOr("n_shared_experts", default_shared, 0, 64);
  moe.shared_intermediate = static_cast<int>(shared) * moe.intermediate;
}

void RefuseOtherThan(ConfigReader& config, std::string_view field, const std::string& known) {
  const std::string value = config.StringOr(field, known);
  if (value != known) {
    config.Fail(field, "'" + value + "' is not supported; supported: " + known);
  }
}

void CheckGroups(ConfigReader& config, const MoeDescription& moe) {
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

void ReadSigmoidChoice(ConfigReader& config, const SigmoidDefaults& defaults, MoeDescription& moe) {
  // The classes know only one way to choose, and configs of transformers omit it.
  RefuseOtherThan(config, "scoring_func", "sigmoid");
  RefuseOtherThan(config, "topk_method", "noaux_tc");
  moe.score = GateScore::kSigmoid;
  moe.renormalize = config.BoolOr("norm_topk_prob", true);
  moe.weight_scale = static_cast<float>(
      config.NumberOr("routed_scaling_factor", defaults.weight_scale, 1e-6, 1e6));
  if (config.IsNull("n_group")) return;  // no groups
  moe.groups = static_cast<int>(config.IntegerOr("n_group", defaults.groups, 1, kMaxGroups));
  moe.top_groups =
      static_cast<int>(config.IntegerOr("topk_group", defaults.top_groups, 1, kMaxGroups));
  if (moe.top_groups > moe.groups) {
    config.Fail("topk_group", "is " + std::to_string(moe.top_groups) +
                                  ", more than n_group = " + std::to_string(moe.groups));
  }
  if (moe.groups > 1 && moe.groups == moe.experts) {
    config.Fail("n_group", "is n_routed_experts; groups are judged by two experts each");
  }
  CheckGroups(config, moe);
}

void ReadFirstDenseLayers(ConfigReader& config, int default_first, ModelDescription& model) {
  const int64_t first = config.IntegerOr("first_k_dense_replace", default_first, 0, model.layers);
  const int64_t step = config.IntegerOr("moe_layer_freq", 1, 1, kMaxLayers);
  ReadDenseLayers(
      config, "first_k_dense_replace",
      [&](int layer) { return layer >= first && layer % step == 0; }, model);
}

}  // namespace janus
