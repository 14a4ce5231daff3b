#include "controllers/placement.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace janus::controllers {
namespace {

// One layer's slots, dealt card by card.
class Dealer {
 public:
  Dealer(const PlacementRequest& request, int total_slots)
      : request_(request), row_(static_cast<size_t>(total_slots), Placement::kEmpty) {
    int first = 0;
    for (const int slots : request.slots_of_instance) {
      first_.push_back(first);
      first += slots;
    }
    used_.assign(first_.size(), 0);
  }

  std::vector<uint16_t> Deal(int fillable_slots) {
    int expert = 0;
    for (int dealt = 0; dealt < fillable_slots; ++dealt) {
      if (!DealOneOf(expert)) break;
    }
    return std::move(row_);
  }

 private:
  // Gives the next instance in turn a replica of `expert`, or of the first one after it that any
  // instance can take; moves `expert` past the one dealt.
  bool DealOneOf(int& expert) {
    for (int tried = 0; tried < request_.experts; ++tried) {
      const int candidate = expert;
      expert = (expert + 1) % request_.experts;
      if (Give(static_cast<uint16_t>(candidate))) return true;
    }
    return false;
  }

  bool Give(uint16_t expert) {
    const size_t instances = first_.size();
    for (size_t i = 0; i < instances; ++i) {
      const size_t instance = (turn_ + i) % instances;
      if (!CanTake(instance, expert)) continue;
      const int slot = first_[instance] + used_[instance]++;
      row_[static_cast<size_t>(slot)] = expert;
      turn_ = (instance + 1) % instances;
      return true;
    }
    return false;
  }

  bool CanTake(size_t instance, uint16_t expert) const {
    if (used_[instance] >= request_.slots_of_instance[instance] - request_.spare_slots)
      return false;
    const auto begin = row_.begin() + first_[instance];
    const auto end = begin + used_[instance];
    return std::find(begin, end, expert) == end;
  }

  const PlacementRequest& request_;
  std::vector<uint16_t> row_;
  std::vector<int> first_;  // [n]
  std::vector<int> used_;   // [n]
  size_t turn_ = 0;
};

Status TooFewSlots(const PlacementRequest& request, int fillable) {
  const int instances = static_cast<int>(request.slots_of_instance.size());
  std::string message = "placement: " + std::to_string(request.experts) +
                        " experts need as many slots; " + std::to_string(instances) +
                        " expert instances have " + std::to_string(fillable) + " to fill";
  if (request.spare_slots > 0) {
    message += " (" + std::to_string(request.spare_slots) + " spare ones each stay empty)";
  }
  const int per_instance = (request.experts + instances - 1) / instances;
  message += "; raise slotsPerInstance to " + std::to_string(per_instance) +
             ", or the number of expert instances";
  return InvalidArgument(std::move(message));
}

}  // namespace

Result<Placement> PlaceRoundRobin(const PlacementRequest& request) {
  if (request.layers < 1 || request.experts < 1 || request.experts >= Placement::kEmpty) {
    return InvalidArgument("placement: " + std::to_string(request.layers) + " layers of " +
                           std::to_string(request.experts) +
                           " experts; want at least one of each and fewer than 65,535 experts");
  }
  if (request.slots_of_instance.empty()) {
    return InvalidArgument("placement: no expert instances; want at least one");
  }
  int64_t total = 0;
  int64_t fillable = 0;
  for (const int slots : request.slots_of_instance) {
    if (slots < 0 || request.spare_slots < 0) {
      return InvalidArgument("placement: a negative number of slots");
    }
    total += slots;
    fillable += std::max(slots - request.spare_slots, 0);
  }
  if (total * request.layers > kMaxPlacementEntries) {
    return InvalidArgument("placement: " + std::to_string(request.layers) + " layers x " +
                           std::to_string(total) + " slots are more than " +
                           std::to_string(kMaxPlacementEntries) +
                           " entries; lower slotsPerInstance or the number of expert instances");
  }
  if (fillable < request.experts) return TooFewSlots(request, static_cast<int>(fillable));

  Placement placement;
  placement.layers = request.layers;
  placement.slots_of_instance = request.slots_of_instance;
  const std::vector<uint16_t> row =
      Dealer(request, static_cast<int>(total)).Deal(static_cast<int>(fillable));
  placement.expert_of.reserve(row.size() * static_cast<size_t>(request.layers));
  for (int layer = 0; layer < request.layers; ++layer) {
    placement.expert_of.insert(placement.expert_of.end(), row.begin(), row.end());
  }
  return placement;
}

}  // namespace janus::controllers
