#pragma once

#include <string>
#include <string_view>

#include "common/model/config_reader.h"
#include "common/model/description.h"

namespace janus {

// Functions that DeepSeek's families share with each other, and some with others; deepseek_v2.cc
// and deepseek_v3.cc read the rest.

// Latent attention with or without a latent query, interleaved rope.
AttentionDescription ReadLatentAttention(ConfigReader& config);
// moe_intermediate_size, and n_shared_experts of that size.
void ReadExpertSizes(ConfigReader& config, int default_intermediate, int default_shared,
                     MoeDescription& moe);
// Checks a field that may be absent and has only one supported value.
void RefuseOtherThan(ConfigReader& config, std::string_view field, const std::string& known);
// What DeepSeek-V3's choice takes where the file does not say.
struct SigmoidDefaults {
  int groups;
  int top_groups;
  double weight_scale;
};
// Experts scored by the sigmoid and chosen with a bias: norm_topk_prob, routed_scaling_factor,
// n_group (null: no groups) and topk_group. `moe` has its experts and top_k.
void ReadSigmoidChoice(ConfigReader& config, const SigmoidDefaults& defaults, MoeDescription& moe);
// Checks that moe's experts divide into its groups, and that the best groups hold enough experts.
void CheckGroups(ConfigReader& config, const MoeDescription& moe);
// Reads the dense layers from first_k_dense_replace and moe_layer_freq.
void ReadFirstDenseLayers(ConfigReader& config, int default_first, ModelDescription& model);

}  // namespace janus
