#pragma once

#include <string>
#include <string_view>

#include "common/model/config_reader.h"
#include "common/model/description.h"

namespace janus {

// What DeepSeek's families write alike; deepseek_v2.cc and deepseek_v3.cc read the rest.

// Latent attention with or without a latent query, interleaved rope.
AttentionDescription ReadLatentAttention(ConfigReader& config);
// moe_intermediate_size, and n_shared_experts of that size.
void ReadExpertSizes(ConfigReader& config, int default_intermediate, int default_shared,
                     MoeDescription& moe);
// A field that may be absent, and has one value that is served.
void RefuseOtherThan(ConfigReader& config, std::string_view field, const std::string& known);
// Whether moe's experts fall into its groups, and the best groups hold enough of them.
void CheckGroups(ConfigReader& config, const MoeDescription& moe);
// Dense layers by first_k_dense_replace and moe_layer_freq.
void ReadFirstDenseLayers(ConfigReader& config, int default_first, ModelDescription& model);

}  // namespace janus
