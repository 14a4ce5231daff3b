#include "common/model/deepseek_v3.h"

#include "common/model/deepseek.h"
#include "common/model/family.h"

namespace janus {
namespace {

MoeDescription ReadMoe(ConfigReader& config) {
  MoeDescription moe;
  ReadExperts(config, "n_routed_experts", 256, "num_experts_per_tok", 8, moe);
  ReadExpertSizes(config, 2048, 1, moe);
  ReadSigmoidChoice(config, {.groups = 8, .top_groups = 4, .weight_scale = 2.5}, moe);
  // As the published code, which leaves a single weight as it is.
  moe.renormalize = moe.renormalize && moe.top_k > 1;
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
