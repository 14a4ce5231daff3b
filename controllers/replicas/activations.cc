#include "controllers/replicas/activations.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

namespace janus::controllers {

Status Validate(const RoutingLayer& layer) {
  if (layer.experts < 1 || layer.top_k < 1 || layer.top_k > layer.experts) {
    return InvalidArgument("routing: top " + std::to_string(layer.top_k) + " of " +
                           std::to_string(layer.experts) + " experts; want 1 <= top k <= experts");
  }
  if (layer.ids.empty() || layer.ids.size() % static_cast<size_t>(layer.top_k) != 0) {
    return InvalidArgument("routing: " + std::to_string(layer.ids.size()) +
                           " ids; want a multiple of " + std::to_string(layer.top_k));
  }
  std::vector<int> last_token(static_cast<size_t>(layer.experts), -1);
  for (size_t i = 0; i < layer.ids.size(); ++i) {
    const int token = static_cast<int>(i) / layer.top_k;
    const uint16_t id = layer.ids[i];
    if (id >= layer.experts) {
      return InvalidArgument("routing: token " + std::to_string(token) + " chose expert " +
                             std::to_string(id) + " of " + std::to_string(layer.experts));
    }
    if (last_token[id] == token) {
      return InvalidArgument("routing: token " + std::to_string(token) + " chose expert " +
                             std::to_string(id) + " twice");
    }
    last_token[id] = token;
  }
  return OkStatus();
}

LayerActivations SampleActivations(const RoutingLayer& layer, int batch, int steps, uint64_t seed) {
  const auto experts = static_cast<size_t>(layer.experts);
  const auto top_k = static_cast<size_t>(layer.top_k);
  const auto tokens = static_cast<size_t>(layer.tokens());
  LayerActivations result;
  result.experts = layer.experts;
  result.rows.assign(experts, 0);
  result.together.assign(experts * experts, 0);
  for (size_t t = 0; t < tokens; ++t) {
    const std::span<const uint16_t> ids(&layer.ids[t * top_k], top_k);
    for (const uint16_t a : ids) {
      ++result.rows[a];
      for (const uint16_t b : ids) {
        if (a != b) ++result.together[a * experts + b];
      }
    }
  }
  // A shuffled deck: tokens come again only once all have been dealt.
  std::mt19937_64 random(seed);
  std::vector<size_t> deck(tokens);
  std::iota(deck.begin(), deck.end(), size_t{0});
  size_t next = tokens;
  std::vector<uint8_t> is_activated(experts);
  for (int s = 0; s < steps; ++s) {
    std::ranges::fill(is_activated, uint8_t{0});
    for (int i = 0; i < batch; ++i) {
      if (next == tokens) {
        for (size_t d = tokens; d > 1; --d) std::swap(deck[d - 1], deck[random() % d]);
        next = 0;
      }
      const size_t token = deck[next++];
      for (size_t k = 0; k < top_k; ++k) is_activated[layer.ids[token * top_k + k]] = 1;
    }
    std::vector<uint16_t> step;
    for (size_t e = 0; e < experts; ++e) {
      if (is_activated[e] != 0) step.push_back(static_cast<uint16_t>(e));
    }
    result.steps.push_back(std::move(step));
  }
  return result;
}

std::vector<double> StepsOfExperts(const LayerActivations& activations) {
  std::vector<double> steps(static_cast<size_t>(activations.experts));
  for (const auto& step : activations.steps) {
    for (const uint16_t e : step) ++steps[e];
  }
  return steps;
}

double ExpectedActivated(const LayerActivations& activations) {
  double sum = 0;
  for (const auto& step : activations.steps) sum += static_cast<double>(step.size());
  return activations.steps.empty() ? 0 : sum / static_cast<double>(activations.steps.size());
}

}  // namespace janus::controllers
