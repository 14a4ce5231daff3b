#pragma once

#include "common/model/config_reader.h"
#include "common/model/description.h"

namespace janus {

// Qwen3-MoE (Qwen3 technical report, 2025): grouped-query attention with normed query and key
// heads, no shared experts, dense layers by mlp_only_layers and decoder_sparse_step. Absent fields
// take transformers' defaults. A sliding window is refused: published code and transformers
// disagree on which layers have it.
ModelDescription ReadQwen3MoeConfig(ConfigReader& config);

}  // namespace janus
