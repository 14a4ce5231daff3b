#pragma once

#include "common/model/config_reader.h"
#include "common/model/description.h"

namespace janus {

// Llama-4's text model (Meta, 2025): layers with rope that see their own chunk of positions, layers
// without rope that see all, norms without weights behind rope, experts whose inputs are weighed by
// the sigmoid of their logit, a shared expert beside them, dense layers between. Absent fields take
// transformers' defaults.
ModelDescription ReadLlama4TextConfig(ConfigReader& config);

// The same from the config.json of the published checkpoints, which have it in "text_config" beside
// that of a vision model. Images are not supported, so the rest is not read.
ModelDescription ReadLlama4Config(ConfigReader& config);

}  // namespace janus
