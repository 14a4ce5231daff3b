#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/status.h"

namespace janus::controllers {

// Measured routing of one layer: which experts each token chose.
struct RoutingLayer {
  int experts = 0;            // E
  int top_k = 0;              // K
  std::vector<uint16_t> ids;  // [tokens, K], distinct within a token

  int tokens() const { return top_k == 0 ? 0 : static_cast<int>(ids.size()) / top_k; }
};

// Ids below `experts`, distinct within a token, at least one token. InvalidArgument names the
// token.
Status Validate(const RoutingLayer& layer);

// What placement looks at of one layer's routing.
struct LayerActivations {
  int experts = 0;
  std::vector<double> rows;     // [E] rows that chose an expert: its popularity
  std::vector<float> together;  // [E,E] rows that chose both; 0 on the diagonal
  // Sampled steps: the distinct experts of each, ascending. What an instance has to read in a step
  // are those of them that fall to it.
  std::vector<std::vector<uint16_t>> steps;
};

// Samples `steps` steps of `batch` tokens each, in turn of two kinds. A decode step has one token
// of each of many sequences: tokens drawn from all over the measurement, without replacement while
// it is large enough. And requests that come together are alike: tokens that stand together, in
// order of time from its begin to its end. The same seed samples the same steps. The layer is
// valid.
LayerActivations SampleActivations(const RoutingLayer& layer, int batch, int steps, uint64_t seed);

// All steps of `batch` tokens that stand together, one after the other, at most `most` of them,
// evenly spread; one of fewer tokens where there are no more.
std::vector<std::vector<uint16_t>> ContiguousSteps(const RoutingLayer& layer, int batch, int most);

// In how many of the sampled steps each expert was activated, [E].
std::vector<double> StepsOfExperts(const LayerActivations& activations);

// Expected number of distinct experts of a step, over the sampled ones.
double ExpectedActivated(const LayerActivations& activations);

}  // namespace janus::controllers
