#include "common/model/deepseek_v3.h"

#include "common/model/deepseek.h"
#include "common/model/family.h"

namespace janus {
namespace {

void ReadGroups(ConfigReader& config, MoeDescription& moe) {
  moe.groups = static_cast<int>(config.IntegerOr("n_group", 8, 1, kMaxGroups));
  moe.top_groups = static_cast<int>(config.IntegerOr("topk_group", 4, 1, kMaxGroups));
  if (moe.top_groups > moe.groups) {
    config.Fail("topk_group", "is " + std::to_string(moe.top_groups) +
                                  ", more than n_group = " + std::to_string(moe.groups));
  }
  if (moe.groups > 1 && moe.groups == moe.experts) {
    config.Fail("n_group", "is n_routed_experts; groups are judged by two experts each");
  }
  CheckGroups(config, moe);
}

MoeDescription ReadMoe(ConfigReader& config) {
  MoeDescription moe;
  ReadExperts(config, "n_routed_experts", 256, "num_experts_per_tok", 8, moe);
  ReadExpertSizes(config, 2048, 1, moe);
  // V3's classes know only one way to choose, and configs of transformers omit it.
  RefuseOtherThan(config, "scoring_func", "sigmoid");
  RefuseOtherThan(config, "topk_method", "noaux_tc");
  moe.score = GateScore::kSigmoid;
  moe.renormalize = config.BoolOr("norm_topk_prob", true) && moe.top_k > 1;
  moe.weight_scale = static_cast<float>(config.NumberOr("routed_scaling_factor", 2.5, 1e-6, 1e6));
  ReadGroups(config, moe);
  return moe;
}

}  // namespace

ModelDescription ReadDeepseekV3Config(ConfigReader& config) {
  ModelDescription model = ReadSizes(config, 1e-6);
  model.attention = ReadLatentAttention(config);
  if (!config.BoolOr("rope_interleave", true)) {
    model.attention.rope.pairing = RopePairing::kHalves;
  }
  model.moe = ReadMoe(config);
  ReadFirstDenseLayers(config, 3, model);
  return model;
}

}  // namespace janus
