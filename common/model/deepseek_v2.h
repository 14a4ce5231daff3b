#pragma once

#include "common/model/config_reader.h"
#include "common/model/description.h"

namespace janus {

// DeepSeek-V2 and V2-Lite (DeepSeek-AI 2024): latent attention with or without a latent query,
// YaRN, experts chosen from the best groups or from all, shared experts, dense first layers.
//
// Absent fields take the defaults of the published configuration class, which transformers shares.
// If that code and transformers 5 read a field differently, the published code counts: transformers
// ignores moe_layer_freq and norm_topk_prob (which then replaces routed_scaling_factor). In both,
// the norms of the latent vectors have an epsilon of 1e-6, independent of rms_norm_eps.
ModelDescription ReadDeepseekV2Config(ConfigReader& config);

}  // namespace janus
