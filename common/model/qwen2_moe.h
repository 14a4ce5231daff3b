#pragma once

#include "common/model/config_reader.h"
#include "common/model/description.h"

namespace janus {

// Qwen2-MoE (Qwen2 technical report, 2024; Qwen1.5-MoE has its form): biases on queries, keys and
// values, a shared expert with a gate, dense layers by mlp_only_layers and decoder_sparse_step.
// Absent fields take transformers' defaults. A sliding window is refused.
ModelDescription ReadQwen2MoeConfig(ConfigReader& config);

}  // namespace janus
