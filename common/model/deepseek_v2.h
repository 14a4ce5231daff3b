#pragma once

#include "common/model/config_reader.h"
#include "common/model/description.h"

namespace janus {

// DeepSeek-V2 and V2-Lite (DeepSeek-AI 2024): latent attention with or without a latent query,
// YaRN, experts chosen from the best groups or from all, shared experts, dense first layers.
//
// Absent fields take the defaults of the published configuration class, which transformers shares.
// Where that code and transformers 5 read a field differently, what the published code computes
// counts: moe_layer_freq, and norm_topk_prob (which then replaces routed_scaling_factor), are
// ignored by transformers. The norms of both latent vectors have an epsilon of 1e-6 in either,
// whatever rms_norm_eps says.
ModelDescription ReadDeepseekV2Config(ConfigReader& config);

}  // namespace janus
