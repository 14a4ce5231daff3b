#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "common/topology.h"

namespace janus::kernels::cuda {

// Instances (unequal slots, some of them empty) with 1..n replicas of each of E experts, crowded on
// few instances every other time.
inline Placement RandomPlacement(int experts, int instances, int extra, std::mt19937_64& random) {
  std::vector<std::vector<uint16_t>> of(static_cast<size_t>(instances));
  const bool skewed = random() % 2 == 0;
  const auto draw = [&] { return random() % static_cast<uint64_t>(instances); };
  const auto place = [&](int expert) {
    auto& list = of[skewed ? std::min(draw(), draw()) : draw()];
    const auto e = static_cast<uint16_t>(expert);
    if (std::ranges::find(list, e) == list.end()) list.push_back(e);
  };
  for (int e = 0; e < experts; ++e) place(e);
  for (int i = 0; i < extra; ++i)
    place(static_cast<int>(random() % static_cast<uint64_t>(experts)));
  Placement placement;
  placement.layers = 1;
  for (auto& list : of) {
    for (uint64_t empty = random() % 3; empty > 0; --empty) list.push_back(Placement::kEmpty);
    std::ranges::shuffle(list, random);
    placement.slots_of_instance.push_back(static_cast<int>(list.size()));
    placement.expert_of.insert(placement.expert_of.end(), list.begin(), list.end());
  }
  return placement;
}

}  // namespace janus::kernels::cuda
