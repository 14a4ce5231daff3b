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

namespace {

// The distinct experts that these tokens chose, ascending.
std::vector<uint16_t> Activated(const RoutingLayer& layer, std::span<const size_t> tokens) {
  const auto top_k = static_cast<size_t>(layer.top_k);
  std::vector<uint8_t> is_activated(static_cast<size_t>(layer.experts));
  for (const size_t token : tokens) {
    for (size_t k = 0; k < top_k; ++k) is_activated[layer.ids[token * top_k + k]] = 1;
  }
  std::vector<uint16_t> experts;
  for (size_t e = 0; e < is_activated.size(); ++e) {
    if (is_activated[e] != 0) experts.push_back(static_cast<uint16_t>(e));
  }
  return experts;
}

}  // namespace

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
  const std::vector<std::vector<uint16_t>> together =
      ContiguousSteps(layer, batch, (steps + 1) / 2);
  // A shuffled deck: a token is drawn again only after all others were drawn.
  std::mt19937_64 random(seed);
  std::vector<size_t> deck(tokens);
  std::iota(deck.begin(), deck.end(), size_t{0});
  size_t next = tokens;
  std::vector<size_t> chosen(static_cast<size_t>(batch));
  for (int s = 0; s < steps; ++s) {
    if (s % 2 == 1) {
      const auto i = static_cast<size_t>(s / 2);
      result.steps.push_back(together[std::min(i * together.size() * 2 / static_cast<size_t>(steps),
                                               together.size() - 1)]);
      continue;
    }
    for (size_t& token : chosen) {
      if (next == tokens) {
        for (size_t d = tokens; d > 1; --d) std::swap(deck[d - 1], deck[random() % d]);
        next = 0;
      }
      token = deck[next++];
    }
    result.steps.push_back(Activated(layer, chosen));
  }
  return result;
}

std::vector<std::vector<uint16_t>> ContiguousSteps(const RoutingLayer& layer, int batch, int most) {
  const auto tokens = static_cast<size_t>(layer.tokens());
  const size_t each = std::min(static_cast<size_t>(batch), tokens);
  const size_t count = std::min(tokens / each, static_cast<size_t>(most));
  std::vector<std::vector<uint16_t>> steps;
  std::vector<size_t> chosen(each);
  for (size_t s = 0; s < count; ++s) {
    // The first step is at the beginning of the measurement, the last at its end.
    const size_t begin = count > 1 ? (tokens - each) * s / (count - 1) : 0;
    std::iota(chosen.begin(), chosen.end(), begin);
    steps.push_back(Activated(layer, chosen));
  }
  return steps;
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
