#include "controllers/observe/routing_window.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

namespace janus::controllers {
namespace {

auto KeyOf(const RoutedRound& round) {
  return std::tuple(round.epoch, round.step, round.layer, round.micro_batch);
}

bool IsOf(const RoutedRound& round, int layers, int experts) {
  return round.layer >= 0 && round.layer < layers && round.top_k > 0 && !round.experts.empty() &&
         round.experts.size() % static_cast<size_t>(round.top_k) == 0 &&
         std::ranges::all_of(round.experts, [&](uint16_t expert) { return expert < experts; });
}

void Count(const RoutedRound& round, LayerActivations& layer) {
  const auto experts = static_cast<size_t>(layer.experts);
  const auto top_k = static_cast<size_t>(round.top_k);
  for (size_t row = 0; row < round.experts.size(); row += top_k) {
    const std::span<const uint16_t> ids(&round.experts[row], top_k);
    for (const uint16_t a : ids) {
      ++layer.rows[a];
      for (const uint16_t b : ids) {
        if (a != b) ++layer.together[a * experts + b];
      }
    }
  }
  const std::set<uint16_t> distinct(round.experts.begin(), round.experts.end());
  layer.steps.emplace_back(distinct.begin(), distinct.end());
}

}  // namespace

void AddRounds(std::span<const RoutedRound> rounds, double now_seconds, const WindowBounds& bounds,
               RoutingWindow& window) {
  std::set<decltype(KeyOf(RoutedRound()))> known;
  for (const auto& one : window) known.insert(KeyOf(one->round));
  for (const RoutedRound& round : rounds) {
    if (!known.insert(KeyOf(round)).second) continue;
    window.push_back(std::make_shared<const WindowRound>(WindowRound{now_seconds, round}));
  }
  size_t ids = 0;
  auto first = window.end();
  while (first != window.begin()) {
    const WindowRound& one = **(first - 1);
    ids += one.round.experts.size();
    if (ids > bounds.most_ids || one.time_seconds < now_seconds - bounds.age_seconds) break;
    --first;
  }
  window.erase(window.begin(), first);
}

Result<std::vector<LayerActivations>> ActivationsOf(const RoutingWindow& window, int layers,
                                                    int experts) {
  const auto size = static_cast<size_t>(experts);
  std::vector<LayerActivations> out(static_cast<size_t>(layers));
  for (LayerActivations& layer : out) {
    layer.experts = experts;
    layer.rows.assign(size, 0);
    layer.together.assign(size * size, 0);
  }
  for (const auto& one : window) {
    if (!IsOf(one->round, layers, experts)) continue;
    Count(one->round, out[static_cast<size_t>(one->round.layer)]);
  }
  for (size_t layer = 0; layer < out.size(); ++layer) {
    const size_t rounds = out[layer].steps.size();
    if (rounds >= static_cast<size_t>(kFewestRounds)) continue;
    return Unavailable("layer " + std::to_string(layer) + " has " + std::to_string(rounds) +
                       " sampled rounds; a placement needs " + std::to_string(kFewestRounds));
  }
  return out;
}

}  // namespace janus::controllers
