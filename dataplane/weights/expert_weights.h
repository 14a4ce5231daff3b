#pragma once

#include <optional>
#include <vector>

#include "dataplane/weights/tensor.h"

namespace janus::dataplane {

// An expert instance's weights: every MoE layer's gate and the experts in its slots.
struct ExpertLayerWeights {
  Tensor gate;                                   // [E,H]
  Tensor gate_bias;                              // [E] Float32; null without has_gate_bias()
  std::vector<std::optional<FfnTensors>> slots;  // [C]; empty if the slot is empty
};

struct ExpertWeights {
  std::vector<ExpertLayerWeights> layers;  // MoE layers only, counted from 0
};

}  // namespace janus::dataplane
