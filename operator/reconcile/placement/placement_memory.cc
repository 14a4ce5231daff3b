#include "operator/reconcile/placement/placement_memory.h"

#include <algorithm>

namespace janus::control {

PlacedExperts PlacedOn(const Placement& placement, std::span<const InstanceId> experts) {
  PlacedExperts out;
  out.layers = placement.layers;
  int first = 0;
  for (size_t rank = 0; rank < experts.size(); ++rank) {
    std::vector<uint16_t>& slots = out.slots[experts[rank]];
    const int end = first + placement.slots_of_instance[rank];
    for (int layer = 0; layer < placement.layers; ++layer) {
      for (int slot = first; slot < end; ++slot) slots.push_back(placement.at(layer, slot));
    }
    first = end;
  }
  return out;
}

std::optional<Placement> PlacementOn(const PlacedExperts& placed,
                                     std::span<const InstanceId> experts,
                                     const std::vector<int>& slots_of_instance) {
  if (placed.slots.size() != experts.size() || experts.size() != slots_of_instance.size()) {
    return std::nullopt;
  }
  std::vector<const std::vector<uint16_t>*> of;
  for (size_t rank = 0; rank < experts.size(); ++rank) {
    const auto found = placed.slots.find(experts[rank]);
    const auto slots = static_cast<size_t>(slots_of_instance[rank]);
    if (found == placed.slots.end()) return std::nullopt;
    if (found->second.size() != slots * static_cast<size_t>(placed.layers)) return std::nullopt;
    of.push_back(&found->second);
  }
  Placement out;
  out.layers = placed.layers;
  out.slots_of_instance = slots_of_instance;
  for (int layer = 0; layer < placed.layers; ++layer) {
    for (size_t rank = 0; rank < of.size(); ++rank) {
      const int slots = slots_of_instance[rank];
      const auto from = of[rank]->begin() + static_cast<ptrdiff_t>(layer) * slots;
      out.expert_of.insert(out.expert_of.end(), from, from + slots);
    }
  }
  return out;
}

}  // namespace janus::control
