#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/status.h"
#include "common/topology.h"
#include "controllers/replicas/activations.h"
#include "controllers/replicas/layout.h"

namespace janus::controllers {

enum class PlacementMethod : uint8_t {
  kRoundRobin,    // controllers/placement.h: blind
  kRows,          // EPLB's
  kCoactivation,  // JANUS, greedy replication and Algorithm 2
  // The best of several to begin with, then local search on the real objective; taken only where
  // steps that it was not made from show a gain.
  kSearch,
};

struct PlacementOptions {
  PlacementMethod method = PlacementMethod::kSearch;
  // Layouts the search may judge per layer; each takes some 2 us per sampled step.
  int evaluations = 700;
  // What loading one replica onto an instance that has not got it must gain, in expected activated
  // experts of the busiest instance: weight x replicas loaded is part of the search's objective.
  double movement_weight = 0.002;
  SchedulingPolicy scheduling = SchedulingPolicy::kAebs;  // that the service uses
  // Whether a search is judged on steps that it was not made from, as below; else all are searched.
  bool is_judged = true;
  // Without the largest pod there are still slots for every expert.
  bool survivable = false;
  uint64_t seed = 1;
};

// A placement of all layers from measured routing: layers[l] of the l-th MoE layer. Per layer it
// minimises the expected number of activated experts on the busiest instance (what a decode round
// waits for), under the scheduling of the options over the sampled steps, plus the movement from
// `current` (of the same shape of slots; null: none). Never two replicas of an expert on one
// instance, replicas in different pods first, spare slots (each instance's last ones) empty; a
// replica that stays keeps its slot. Pure and deterministic. The search is JANUS's objective taken
// at its word; Algorithm 2 minimises co-activation instead, which only stands for it.
//
// A search that fits one part of a measurement may lose on another. So the last third of the steps
// is kept from it and judges it, those at even and at odd places apart: they are of two kinds where
// SampleActivations made them. Where the search does not lower the mean over all layers by
// kLeastGain, or is worse on either kind, the answer is `current`, or, without one, the experts
// dealt in turn, unless these crowd pods.
//
// InvalidArgument: too few slots (with the numbers), layers of different size, a bound of
// controllers/placement.h. FailedPrecondition: not survivable, with what would be.
Result<Placement> PlaceByActivation(const std::vector<int>& slots_of_instance, int spare_slots,
                                    const std::vector<int>& pod_of_instance,
                                    std::span<const LayerActivations> layers,
                                    const Placement* current, const PlacementOptions& options);

// What a placement that was searched for must gain on steps that it was not made from.
inline constexpr double kLeastGain = 0.01;

// Replicas that `next` has on an instance where `current` has none of that expert, over all layers:
// what has to be loaded. Both of the same number of layers and instances.
int64_t ReplicasToLoad(const Placement& current, const Placement& next);

// One layer of a placement as sets.
Layout LayoutOf(const Placement& placement, int layer);

}  // namespace janus::controllers
