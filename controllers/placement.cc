#include "controllers/placement.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>

#include "common/check.h"

namespace janus::controllers {
namespace {

// The expert that gets the first second replica of a layer. Where not all get as many, the next
// layer goes on where this one ends, so that over the layers all do.
int FirstAgain(const PlacementRequest& request, int layer) {
  int64_t fillable = 0;
  for (const int slots : request.slots_of_instance) {
    fillable += std::max(slots - request.spare_slots, 0);
  }
  return static_cast<int>(fillable % request.experts * layer % request.experts);
}

// Whether `is` holds for another instance of the pod. `pods`: PlacementRequest::pod_of_instance.
template <class Is>
bool AnyMate(const std::vector<int>& pods, size_t instance, Is is) {
  for (size_t i = 0; i < pods.size(); ++i) {
    if (i != instance && pods[i] == pods[instance] && is(i)) return true;
  }
  return false;
}

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

  // `first_again`: which expert gets the first second replica.
  std::vector<uint16_t> Deal(int first_again) {
    int expert = 0;
    for (int dealt = 0; dealt < request_.experts; ++dealt) DealOneOf(expert);
    expert = first_again;
    while (DealOneOf(expert)) {
    }
    return std::move(row_);
  }

 private:
  // Gives the next instance in turn a replica of `expert` or, if no instance can take that, of the
  // first expert after it that fits. Moves `expert` past the expert that was dealt.
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
    for (const bool any_pod : {false, true}) {
      for (size_t i = 0; i < instances; ++i) {
        const size_t instance = (turn_ + i) % instances;
        if (!CanTake(instance, expert) || (!any_pod && PodHas(instance, expert))) continue;
        const int slot = first_[instance] + used_[instance]++;
        row_[static_cast<size_t>(slot)] = expert;
        turn_ = (instance + 1) % instances;
        return true;
      }
    }
    return false;
  }

  bool CanTake(size_t instance, uint16_t expert) const {
    if (used_[instance] >= request_.slots_of_instance[instance] - request_.spare_slots)
      return false;
    return !Has(instance, expert);
  }
  bool Has(size_t instance, uint16_t expert) const {
    const auto begin = row_.begin() + first_[instance];
    const auto end = begin + used_[instance];
    return std::find(begin, end, expert) != end;
  }
  // Whether another instance of its pod has the expert.
  bool PodHas(size_t instance, uint16_t expert) const {
    return AnyMate(request_.pod_of_instance, instance,
                   [&](size_t mate) { return Has(mate, expert); });
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

// Places one layer on instances that already have experts.
class Keeper {
 public:
  Keeper(const PlacementRequest& request, int layer)
      : experts_(static_cast<size_t>(request.experts)),
        first_(static_cast<size_t>(FirstAgain(request, layer))),
        levels_(request.levels),
        pods_(request.pod_of_instance),
        counts_(experts_) {
    for (const int slots : request.slots_of_instance) {
      rooms_.push_back(static_cast<size_t>(std::max(slots - request.spare_slots, 0)));
    }
    of_.resize(rooms_.size());
  }

  // held(i): the experts of the layer that instance i has.
  template <class Held>
  std::vector<std::vector<uint16_t>> Place(Held held) {
    for (size_t i = 0; i < of_.size(); ++i) {
      for (const uint16_t expert : held(i)) {
        if (expert < experts_ && !Has(i, expert)) Add(i, expert);
      }
      while (of_[i].size() > rooms_[i]) DropMost(i);
    }
    Cover();
    while (AddReplica()) {
    }
    while (levels_ && Level()) {
    }
    return std::move(of_);
  }

 private:
  bool Has(size_t instance, uint16_t expert) const {
    return std::find(of_[instance].begin(), of_[instance].end(), expert) != of_[instance].end();
  }
  bool PodHas(size_t instance, uint16_t expert) const {
    return AnyMate(pods_, instance, [&](size_t mate) { return Has(mate, expert); });
  }
  size_t Free(size_t instance) const { return rooms_[instance] - of_[instance].size(); }
  void Add(size_t instance, uint16_t expert) {
    of_[instance].push_back(expert);
    ++counts_[expert];
  }
  // Drops the instance's expert with most replicas; the last among equals.
  void DropMost(size_t instance) {
    std::vector<uint16_t>& own = of_[instance];
    size_t at = 0;
    for (size_t i = 1; i < own.size(); ++i) {
      if (counts_[own[i]] >= counts_[own[at]]) at = i;
    }
    --counts_[own[at]];
    own.erase(own.begin() + static_cast<std::ptrdiff_t>(at));
  }

  // Gives every expert a replica. All slots together have room for that.
  void Cover() {
    size_t missing = static_cast<size_t>(std::count(counts_.begin(), counts_.end(), 0));
    size_t free = 0;
    for (size_t i = 0; i < of_.size(); ++i) free += Free(i);
    for (; free < missing; ++free) DropMost(WhoHasMost());
    for (size_t expert = 0; missing > 0; ++expert) {
      if (counts_[expert] > 0) continue;
      Add(Roomiest([](size_t) { return true; }), static_cast<uint16_t>(expert));
      --missing;
    }
  }
  // Among instances that have an expert with the most replicas, the one with least room.
  size_t WhoHasMost() const {
    const int most = *std::max_element(counts_.begin(), counts_.end());
    size_t found = of_.size();
    for (size_t i = 0; i < of_.size(); ++i) {
      const bool has = std::any_of(of_[i].begin(), of_[i].end(),
                                   [&](uint16_t expert) { return counts_[expert] == most; });
      if (has && (found == of_.size() || Free(i) < Free(found))) found = i;
    }
    return found;
  }
  // The first instance with most room among those that `may`; of_.size(): none of them has room.
  template <class May>
  size_t Roomiest(May may) const {
    size_t found = of_.size();
    for (size_t i = 0; i < of_.size(); ++i) {
      if (Free(i) > 0 && may(i) && (found == of_.size() || Free(i) > Free(found))) found = i;
    }
    return found;
  }
  // Those with the fewest replicas first, of as many in turn from the layer's first one.
  std::vector<uint16_t> ByCount() const {
    std::vector<uint16_t> order(experts_);
    std::iota(order.begin(), order.end(), uint16_t{0});
    std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(first_), order.end());
    std::stable_sort(order.begin(), order.end(),
                     [&](uint16_t a, uint16_t b) { return counts_[a] < counts_[b]; });
    return order;
  }
  bool AddReplica() {
    if (Roomiest([](size_t) { return true; }) == of_.size()) return false;
    for (const uint16_t expert : ByCount()) {
      size_t to = Roomiest([&](size_t i) { return !Has(i, expert) && !PodHas(i, expert); });
      if (to == of_.size()) to = Roomiest([&](size_t i) { return !Has(i, expert); });
      if (to == of_.size()) continue;
      Add(to, expert);
      return true;
    }
    return false;
  }
  // Replaces a replica of an expert that has at least two replicas more than another by that other
  // one.
  bool Level() {
    const std::vector<uint16_t> order = ByCount();
    for (const uint16_t few : order) {
      for (auto many = order.rbegin(); many != order.rend(); ++many) {
        if (counts_[*many] < counts_[few] + 2) break;
        for (const bool any_pod : {false, true}) {
          for (size_t i = 0; i < of_.size(); ++i) {
            if (!Has(i, *many) || Has(i, few) || (!any_pod && PodHas(i, few))) continue;
            *std::find(of_[i].begin(), of_[i].end(), *many) = few;
            --counts_[*many];
            ++counts_[few];
            return true;
          }
        }
      }
    }
    return false;
  }

  const size_t experts_;
  const size_t first_;
  const bool levels_;
  const std::vector<int>& pods_;
  std::vector<int> counts_;                // [E]: replicas
  std::vector<size_t> rooms_;              // [n]: slots that are not spare
  std::vector<std::vector<uint16_t>> of_;  // [n]
};

Status Check(const PlacementRequest& request) {
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
  if (!request.pod_of_instance.empty() &&
      request.pod_of_instance.size() != request.slots_of_instance.size()) {
    return InvalidArgument("placement: pods of " + std::to_string(request.pod_of_instance.size()) +
                           " instances; want " + std::to_string(request.slots_of_instance.size()));
  }
  if (fillable < request.experts) return TooFewSlots(request, static_cast<int>(fillable));
  return OkStatus();
}

}  // namespace

std::vector<int> PodNumbers(std::span<const std::string> names) {
  std::vector<std::string> seen;
  std::vector<int> out;
  for (const std::string& name : names) {
    const auto at = std::find(seen.begin(), seen.end(), name);
    out.push_back(static_cast<int>(at - seen.begin()));
    if (at == seen.end()) seen.push_back(name);
  }
  return out;
}

Result<Placement> PlaceRoundRobin(const PlacementRequest& request) {
  JANUS_RETURN_IF_ERROR(Check(request));
  Placement placement;
  placement.layers = request.layers;
  placement.slots_of_instance = request.slots_of_instance;
  placement.expert_of.reserve(static_cast<size_t>(placement.total_slots()) *
                              static_cast<size_t>(request.layers));
  for (int layer = 0; layer < request.layers; ++layer) {
    const std::vector<uint16_t> row =
        Dealer(request, placement.total_slots()).Deal(FirstAgain(request, layer));
    placement.expert_of.insert(placement.expert_of.end(), row.begin(), row.end());
  }
  return placement;
}

Result<Placement> PlaceKeeping(const PlacementRequest& request, std::span<const HeldExperts> held) {
  JANUS_RETURN_IF_ERROR(Check(request));
  JANUS_CHECK(held.size() == request.slots_of_instance.size(), held.size());
  const auto of_layer = [&](size_t instance, size_t layer) -> std::span<const uint16_t> {
    const HeldExperts& own = held[instance];
    return layer < own.size() ? std::span<const uint16_t>(own[layer]) : std::span<const uint16_t>();
  };
  if (std::all_of(held.begin(), held.end(), [](const HeldExperts& own) { return own.empty(); })) {
    return PlaceRoundRobin(request);
  }
  Placement placement;
  placement.layers = request.layers;
  placement.slots_of_instance = request.slots_of_instance;
  for (size_t layer = 0; layer < static_cast<size_t>(request.layers); ++layer) {
    const std::vector<std::vector<uint16_t>> of =
        Keeper(request, static_cast<int>(layer)).Place([&](size_t instance) {
          return of_layer(instance, layer);
        });
    for (size_t i = 0; i < of.size(); ++i) {
      std::vector<uint16_t> slots = of[i];
      slots.resize(static_cast<size_t>(request.slots_of_instance[i]), Placement::kEmpty);
      placement.expert_of.insert(placement.expert_of.end(), slots.begin(), slots.end());
    }
  }
  return placement;
}

}  // namespace janus::controllers
