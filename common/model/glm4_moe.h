#pragma once

#include "common/model/config_reader.h"
#include "common/model/description.h"

namespace janus {

// GLM-4.5 and its successors (GLM-4.5 technical report, 2025): grouped-query attention with
// rope over a part of each head, biases and optional norms of query and key heads; DeepSeek-V3's
// scores, groups, shared experts and dense first layers. Absent fields take transformers' defaults.
ModelDescription ReadGlm4MoeConfig(ConfigReader& config);

}  // namespace janus
