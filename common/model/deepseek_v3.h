#pragma once

#include "common/model/config_reader.h"
#include "common/model/description.h"

namespace janus {

// DeepSeek-V3 and R1 (DeepSeek-AI 2024): V2's attention and layers; experts scored by the sigmoid,
// chosen with a bias ("noaux_tc").
//
// Absent fields take the defaults of the published configuration class. num_nextn_predict_layers,
// the layers that predict a second token, come after num_hidden_layers in a checkpoint and are not
// served. Where the published code and transformers 5 read a field differently, what the published
// code computes counts: moe_layer_freq, and norm_topk_prob of a single expert (which keeps its
// score). rope_interleave is transformers' own.
ModelDescription ReadDeepseekV3Config(ConfigReader& config);

}  // namespace janus
