#pragma once

#include "common/model/config_reader.h"
#include "common/model/description.h"

namespace janus {

// Mixtral (Jiang et al. 2024): grouped-query attention with rope, every layer sparse. The gate's
// softmax weights of the top k experts are divided by their sum. Absent fields take transformers'
// defaults.
ModelDescription ReadMixtralConfig(ConfigReader& config);

}  // namespace janus
