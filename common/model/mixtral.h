#pragma once

#include "common/model/config_reader.h"
#include "common/model/description.h"

namespace janus {

// Mixtral (Jiang et al. 2024): grouped-query attention with rope, softmax gate over the top k whose
// weights are divided by their sum, every layer sparse. Absent fields take transformers' defaults.
ModelDescription ReadMixtralConfig(ConfigReader& config);

}  // namespace janus
