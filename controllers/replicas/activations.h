#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/status.h"

namespace janus::controllers {

// Measured routing of one layer: the experts that each token chose.
struct RoutingLayer {
  int experts = 0;            // E
  int top_k = 0;              // K
  std::vector<uint16_t> ids;  // [tokens, K], distinct within a token

  int tokens() const { return top_k == 0 ? 0 : static_cast<int>(ids.size()) / top_k; }
};

// Checks that ids are below `experts` and distinct within a token, and that there is a token.
// InvalidArgument names the token.
Status Validate(const RoutingLayer& layer);

// What placement needs to know of one layer's routing.
struct LayerActivations {
  int experts = 0;
  std::vector<double> rows;     // [E] rows that chose the expert: its popularity
  std::vector<float> together;  // [E,E] rows that chose both; 0 on the diagonal
  // Sampled steps: the distinct experts of each, ascending. In a step, an instance reads those that
  // it runs.
  std::vector<std::vector<uint16_t>> steps;
};

// Samples `steps` steps of `batch` tokens each, alternating between two kinds. The first kind
// imitates decode steps, which have one token of each of many sequences: tokens are drawn from the
// whole measurement, without replacement while it is large enough. The second kind imitates similar
// requests that arrive together: neighbouring tokens, at places from the measurement's beginning to
// its end. The same seed samples the same steps. The layer must be valid.
LayerActivations SampleActivations(const RoutingLayer& layer, int batch, int steps, uint64_t seed);

// Steps of `batch` neighbouring tokens, one after the other: at most `most`, evenly spread. If
// there are fewer than `batch` tokens, one smaller step.
std::vector<std::vector<uint16_t>> ContiguousSteps(const RoutingLayer& layer, int batch, int most);

// The number of sampled steps in which each expert was activated, [E].
std::vector<double> StepsOfExperts(const LayerActivations& activations);

// Mean number of distinct experts in a sampled step.
double ExpectedActivated(const LayerActivations& activations);

}  // namespace janus::controllers
