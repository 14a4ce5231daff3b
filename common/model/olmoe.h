#pragma once

#include "common/model/config_reader.h"
#include "common/model/description.h"

namespace janus {

// OLMoE (Muennighoff et al. 2024): norms over all heads of queries and of keys, clip_qkv, experts
// in every layer. Absent fields take transformers' defaults.
ModelDescription ReadOlmoeConfig(ConfigReader& config);

}  // namespace janus
