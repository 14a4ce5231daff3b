#pragma once

#include "common/model/config_reader.h"
#include "common/model/description.h"

namespace janus {

// DeepSeek-V3 and R1 (DeepSeek-AI 2024): V2's attention and layers. Experts are scored by the
// sigmoid and chosen with a bias ("noaux_tc").
//
// Absent fields take the defaults of the published configuration class. The
// num_nextn_predict_layers layers predict a second token. They come after num_hidden_layers in a
// checkpoint and are not served. If the published code and transformers 5 read a field differently,
// the published code counts: moe_layer_freq, and norm_topk_prob with a single expert (which keeps
// its score). Only transformers has rope_interleave.
ModelDescription ReadDeepseekV3Config(ConfigReader& config);

}  // namespace janus
