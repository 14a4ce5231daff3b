#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/topology.h"
#include "controllers/observe/routing_window.h"
#include "operator/reconcile/epochs/next_step.h"

namespace janus::control {

// A placement by instances, so that it can be found again whatever their ranks are.
struct PlacedExperts {
  int layers = 0;
  // The experts in the slots of each instance, layer by layer; Placement::kEmpty is an empty slot.
  std::map<InstanceId, std::vector<uint16_t>> slots;
  friend bool operator==(const PlacedExperts&, const PlacedExperts&) = default;
};

// `experts`: the expert instances by rank.
PlacedExperts PlacedOn(const Placement& placement, std::span<const InstanceId> experts);
// That placement for these instances by rank. Nothing: it is of other instances, or of instances
// with other numbers of slots.
std::optional<Placement> PlacementOn(const PlacedExperts& placed,
                                     std::span<const InstanceId> experts,
                                     const std::vector<int>& slots_of_instance);

// The last search for a better placement.
struct PlacementSearch {
  WallTime time;
  // Expected experts that the busiest instance reads, mean over layers and sampled steps.
  double busiest_before = 0;
  double busiest_after = 0;
  int64_t replicas_to_load = 0;  // 0: the placement stays
  std::string message;           // one sentence with the numbers
  friend bool operator==(const PlacementSearch&, const PlacementSearch&) = default;
};

// What placement remembers between passes. A new leader begins without it and collects rounds
// anew; the placement in force is that of the record.
struct PlacementMemory {
  std::string topology;  // the MoETopology that all of this is about
  controllers::RoutingWindow rounds;
  std::optional<MonotonicTime> first;     // when the first answer with rounds came
  std::optional<MonotonicTime> heard;     // when the last one came
  std::optional<MonotonicTime> searched;  // when a placement was last searched in them
  double layer_rounds_per_second = 0;     // rounds of one layer; 0: not known yet
  uint64_t layer_rounds_heard = 0;        // counted by the first expert instance, at `heard`
  // A searched placement, for exactly its instances. Null: none was searched, or none was better.
  std::shared_ptr<const PlacedExperts> placed;
  std::optional<PlacementSearch> last;
};

}  // namespace janus::control
