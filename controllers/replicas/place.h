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
  kRoundRobin,    // blind: controllers/placement.h
  kRows,          // as EPLB
  kCoactivation,  // JANUS, greedy replication and Algorithm 2
  // Local search for the real objective, from the best of several layouts. It is used only if it
  // shows a gain on steps that the search has not seen.
  kSearch,
};

struct PlacementOptions {
  PlacementMethod method = PlacementMethod::kSearch;
  // How many layouts the search may judge per layer. Each takes about 2 us per sampled step.
  int evaluations = 700;
  // The gain that must justify loading one replica, in expected activated experts of the busiest
  // instance. The search's objective includes weight x replicas to load.
  double movement_weight = 0.002;
  SchedulingPolicy scheduling = SchedulingPolicy::kAebs;  // the scheduling of the service
  // Whether other steps judge a search, as described below. If not, it uses all steps.
  bool is_judged = true;
  // Every expert must still have a slot without the largest pod.
  bool survivable = false;
  uint64_t seed = 1;
};

// A placement of all layers from measured routing; layers[l] is the l-th MoE layer. For each layer
// it minimises the expected number of activated experts on the busiest instance, for which a decode
// round waits, under the scheduling of the options over the sampled steps. The movement from
// `current` is added (same shape of slots; null: no movement cost). Two replicas of an expert are
// never on one instance, and prefer different pods. Spare slots (each instance's last ones) stay
// empty. A replica that stays keeps its slot. Pure and deterministic. The search optimises JANUS's
// objective itself; Algorithm 2 minimises co-activation instead, which only approximates it.
//
// A search may fit one part of a measurement and lose on another. Therefore it does not see the
// last third of the steps, which judge it. Steps at even and odd places are judged separately, as
// SampleActivations alternates between two kinds. If the search does not lower the mean over all
// layers by kLeastGain, or is worse on either kind, the result is `current`. Without `current`, it
// is the experts dealt in turn, unless these put replicas into too few pods.
//
// InvalidArgument: too few slots (with the numbers), layers of different size, or a bound of
// controllers/placement.h. FailedPrecondition: not survivable; the message says what would be.
Result<Placement> PlaceByActivation(const std::vector<int>& slots_of_instance, int spare_slots,
                                    const std::vector<int>& pod_of_instance,
                                    std::span<const LayerActivations> layers,
                                    const Placement* current, const PlacementOptions& options);

// The gain that a searched placement needs on steps that it has not seen.
inline constexpr double kLeastGain = 0.01;

// How many replicas must be loaded over all layers: `next` has them on an instance where `current`
// does not have that expert. Both have the same number of layers and instances.
int64_t ReplicasToLoad(const Placement& current, const Placement& next);

// One layer of a placement, as sets.
Layout LayoutOf(const Placement& placement, int layer);

}  // namespace janus::controllers
