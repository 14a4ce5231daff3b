#pragma once

// Placements of one layer and ids of rounds, random or measured.

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "common/topology.h"

namespace janus {

// A placement of one layer from each instance's list of experts, in slot order.
inline Placement OneLayer(const std::vector<std::vector<uint16_t>>& experts_of_instance) {
  Placement placement;
  placement.layers = 1;
  for (const auto& experts : experts_of_instance) {
    placement.slots_of_instance.push_back(static_cast<int>(experts.size()));
    placement.expert_of.insert(placement.expert_of.end(), experts.begin(), experts.end());
  }
  return placement;
}

// Instances with unequal numbers of slots, some empty, and 1..n replicas of each of E experts.
inline Placement RandomPlacement(int experts, int instances, int extra_replicas,
                                 std::mt19937_64& random) {
  std::vector<std::vector<uint16_t>> of(static_cast<size_t>(instances));
  const auto any_instance = [&] {
    return static_cast<size_t>(random() % static_cast<uint64_t>(instances));
  };
  const auto place = [&](uint16_t expert, size_t g) {
    if (std::ranges::find(of[g], expert) == of[g].end()) of[g].push_back(expert);
  };
  const bool skewed = random() % 2 == 0;  // many replicas are on few instances
  const auto instance = [&] {
    return skewed ? std::min(any_instance(), any_instance()) : any_instance();
  };
  for (int e = 0; e < experts; ++e) place(static_cast<uint16_t>(e), instance());
  for (int i = 0; i < extra_replicas; ++i) {
    place(static_cast<uint16_t>(random() % static_cast<uint64_t>(experts)), instance());
  }
  for (auto& list : of) {
    for (uint64_t empty = random() % 3; empty > 0; --empty) list.push_back(Placement::kEmpty);
    std::ranges::shuffle(list, random);
  }
  return OneLayer(of);
}

// 1.5x slots: experts dealt in turn, the lower half twice, never twice on one instance.
inline Placement DealtInTurn(int experts, int instances) {
  std::vector<std::vector<uint16_t>> of(static_cast<size_t>(instances));
  for (int s = 0; s < experts * 3 / 2; ++s) {
    const auto e = static_cast<uint16_t>(s % experts);
    auto g = static_cast<size_t>(s % instances);
    while (std::ranges::find(of[g], e) != of[g].end()) g = (g + 1) % of.size();
    of[g].push_back(e);
  }
  return OneLayer(of);
}

inline std::vector<uint16_t> RandomIds(int experts, size_t count, std::mt19937_64& random) {
  const uint64_t spread = 1 + random() % static_cast<uint64_t>(experts);
  std::vector<uint16_t> ids(count);
  for (uint16_t& id : ids) id = static_cast<uint16_t>(random() % spread);
  return ids;
}

// An excerpt of data/routing: [token][layer] -> ids.
using RoutedTokens = std::vector<std::vector<std::vector<uint16_t>>>;
inline RoutedTokens ReadRoutingExcerpt(const std::string& path) {
  std::ifstream file(path);
  RoutedTokens tokens;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::string cell;
    tokens.emplace_back();
    for (int column = 0; std::getline(cells, cell, ','); ++column) {
      if (column < 2) continue;
      std::istringstream ids(cell);
      auto& list = tokens.back().emplace_back();
      for (int id = 0; ids >> id;) list.push_back(static_cast<uint16_t>(id));
    }
  }
  return tokens;
}

// One layer's ids of tokens first..first+count-1.
inline std::vector<uint16_t> IdsOf(const RoutedTokens& tokens, size_t layer, size_t first,
                                   size_t count) {
  std::vector<uint16_t> ids;
  for (size_t t = first; t < first + count; ++t) {
    ids.insert(ids.end(), tokens[t][layer].begin(), tokens[t][layer].end());
  }
  return ids;
}

}  // namespace janus
