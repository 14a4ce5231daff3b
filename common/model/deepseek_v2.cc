#include "common/model/deepseek_v2.h"

#include "common/model/deepseek.h"
#include "common/model/family.h"

namespace janus {
namespace {

void ReadGroups(ConfigReader& config, MoeDescription& moe) {
  const std::string method = config.StringOr("topk_method", "greedy");
  if (method != "greedy" && method != "group_limited_greedy") {
    config.Fail("topk_method",
                "'" + method + "' is not supported; supported: greedy, group_limited_greedy");
  }
  if (method != "group_limited_greedy" || config.IsNull("n_group")) return;
  moe.groups = static_cast<int>(config.Integer("n_group", 1, kMaxGroups));
  moe.top_groups = static_cast<int>(config.Integer("topk_group", 1, moe.groups));
  CheckGroups(config, moe);
}

MoeDescription ReadMoe(ConfigReader& config) {
  MoeDescription moe;
  if (!config.Has("n_routed_experts")) config.Fail("n_routed_experts", "is missing");
  if (!config.Has("num_experts_per_tok")) config.Fail("num_experts_per_tok", "is missing");
  ReadExperts(config, "n_routed_experts", 1, "num_experts_per_tok", 1, moe);
  ReadExpertSizes(config, 1407, 0, moe);
  RefuseOtherThan(config, "scoring_func", "softmax");
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
  ReadFirstDenseLayers(config, 0, model);
  return model;
}

}  // namespace janus
