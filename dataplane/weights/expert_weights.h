#pragma once

#include <optional>
#include <vector>

#include "dataplane/weights/tensor.h"

namespace janus::dataplane {

// What an expert instance holds: every MoE layer's router and the experts of its own slots.
struct ExpertLayerWeights {
  Tensor router;                                 // [E,H]
  Tensor router_bias;                            // [E] Float32; null without has_gate_bias()
  std::vector<std::optional<FfnTensors>> slots;  // [C]; empty where the placement has none
};

struct ExpertWeights {
  std::vector<ExpertLayerWeights> layers;  // MoE layers, counted on their own
};

}  // namespace janus::dataplane
