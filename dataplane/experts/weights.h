#pragma once

#include <optional>
#include <vector>

#include "dataplane/attention/weights.h"

namespace janus::dataplane {

// One routed expert. H hidden, I intermediate.
struct ExpertTensors {
  Tensor gate;  // [I,H]  (w1, gate_proj)
  Tensor up;    // [I,H]  (w3, up_proj)
  Tensor down;  // [H,I]  (w2, down_proj)
};

// What an expert instance holds: every layer's router and the experts of its own slots.
struct ExpertLayerWeights {
  Tensor router;                                    // [E,H]
  std::vector<std::optional<ExpertTensors>> slots;  // [C]; empty where the placement has none
};

struct ExpertWeights {
  std::vector<ExpertLayerWeights> layers;
};

}  // namespace janus::dataplane
