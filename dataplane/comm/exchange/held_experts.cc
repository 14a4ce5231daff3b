#include "dataplane/comm/exchange/held_experts.h"

#include <algorithm>

#include "common/check.h"

namespace janus::dataplane {

HeldExperts::HeldExperts(const Placement& placement, std::span<const int> ranks) {
  for (const uint16_t expert : placement.expert_of) {
    if (expert != Placement::kEmpty) experts_ = std::max<size_t>(experts_, expert + size_t{1});
  }
  held_.resize(static_cast<size_t>(placement.layers) * experts_);
  for (const int rank : ranks) {
    const int first = placement.first_slot(Rank{rank});
    const int slots = placement.slots_of_instance[static_cast<size_t>(rank)];
    for (int layer = 0; layer < placement.layers; ++layer) {
      for (int slot = first; slot < first + slots; ++slot) {
        const uint16_t expert = placement.at(layer, slot);
        if (expert != Placement::kEmpty) held_[static_cast<size_t>(layer) * experts_ + expert] = 1;
      }
    }
  }
}

int HeldExperts::Select(int layer, std::span<const uint16_t> ids, int top_k,
                        std::span<int32_t> places) const {
  const size_t first = static_cast<size_t>(layer) * experts_;
  JANUS_CHECK(first + experts_ <= held_.size(), layer);
  const auto k = static_cast<size_t>(top_k);
  int selected = 0;
  for (size_t row = 0; row * k < ids.size(); ++row) {
    const std::span<const uint16_t> chosen = ids.subspan(row * k, k);
    const bool is_needed = std::ranges::any_of(
        chosen, [&](uint16_t id) { return id < experts_ && held_[first + id] != 0; });
    places[row] = is_needed ? selected++ : -1;
  }
  return selected;
}

}  // namespace janus::dataplane
