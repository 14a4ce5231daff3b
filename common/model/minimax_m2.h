#pragma once

#include "common/model/config_reader.h"
#include "common/model/description.h"

namespace janus {

// MiniMax-M2 (MiniMax, 2025): norms over all heads of queries and of keys, rope over a part of each
// head, experts in every layer, scored by the sigmoid and chosen with a bias. Absent fields take
// transformers' defaults.
ModelDescription ReadMiniMaxM2Config(ConfigReader& config);

}  // namespace janus
