#pragma once

#include "common/model/config_reader.h"
#include "common/model/description.h"

namespace janus {

// gpt-oss (OpenAI, 2025): layers with a sliding window and without, attention sinks, biases on all
// projections, the gate and the experts, clamped SwiGLU, experts in the publisher's form of mxfp4.
// Absent fields take transformers' defaults; an absent dtype is BFloat16, as published files have
// no such field.
ModelDescription ReadGptOssConfig(ConfigReader& config);

}  // namespace janus
