#include "operator/reconcile/placement/search_placement.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "controllers/replicas/layout.h"
#include "controllers/replicas/place.h"

namespace janus::control {
namespace {

// Mean over layers of the experts that the busiest instance reads in a step.
double BusiestOf(const Placement& placement,
                 std::span<const controllers::LayerActivations> activations,
                 SchedulingPolicy scheduling) {
  double sum = 0;
  for (int layer = 0; layer < placement.layers; ++layer) {
    const controllers::LayerActivations& one = activations[static_cast<size_t>(layer)];
    const controllers::ReplicaRoom room{one.experts, placement.slots_of_instance, {}};
    controllers::LayoutJudge judge(room, one.steps, scheduling);
    sum += judge.Judge(controllers::LayoutOf(placement, layer)).largest;
  }
  return sum / std::max(placement.layers, 1);
}

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string MessageOf(const PlacementSearch& search) {
  const std::string before = Number(search.busiest_before);
  if (search.replicas_to_load == 0) {
    return "the placement stays: the busiest instance reads " + before +
           " experts of a layer in a step, and no other placement is worth its loads";
  }
  return "the busiest instance reads " + Number(search.busiest_after) +
         " experts of a layer in a step, " + before + " before, by the sampled routing";
}

}  // namespace

janus::Result<PlacementFound> SearchPlacement(const PlacementMemory& memory,
                                              const PlannedService& planned, bool is_survivable,
                                              const Placement& current,
                                              const std::vector<int>& pods, Seconds interval) {
  JANUS_ASSIGN_OR_RETURN(const std::vector<controllers::LayerActivations> activations,
                         controllers::ActivationsOf(memory.rounds, planned.model.moe_layers(),
                                                    planned.model.moe.experts));
  controllers::PlacementOptions options;
  options.scheduling = planned.plan.effective.scheduling;
  options.survivable = is_survivable;
  const double steps = memory.layer_rounds_per_second * interval.count();
  if (steps > 0) options.movement_weight = kReadsOfALoad / steps;
  JANUS_ASSIGN_OR_RETURN(
      Placement placement,
      controllers::PlaceByActivation(current.slots_of_instance, planned.plan.spare_slots, pods,
                                     activations, &current, options));
  PlacementFound out;
  out.search.replicas_to_load = controllers::ReplicasToLoad(current, placement);
  out.search.busiest_before = BusiestOf(current, activations, options.scheduling);
  out.search.busiest_after = BusiestOf(placement, activations, options.scheduling);
  // Without a load only replicas would go.
  if (out.search.replicas_to_load == 0) {
    placement = current;
    out.search.busiest_after = out.search.busiest_before;
  }
  out.search.message = MessageOf(out.search);
  out.placement = std::move(placement);
  return out;
}

}  // namespace janus::control
