#include "operator/reconcile/placement/choose_placement.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/placement/search_placement.h"

namespace janus::control {
namespace {

std::vector<InstanceId> ExpertIdsOf(const TopologyRecord& record) {
  std::vector<InstanceId> out;
  for (const TopologyInstance& one : record.instances) {
    if (one.role == Role::kExperts) out.push_back(IdOf(one));
  }
  return out;
}

// Whether replicas of any two experts of a layer differ by at most one.
bool IsLevel(const Placement& placement, int experts) {
  for (int layer = 0; layer < placement.layers; ++layer) {
    std::vector<int> replicas(static_cast<size_t>(experts));
    for (int slot = 0; slot < placement.total_slots(); ++slot) {
      const uint16_t expert = placement.at(layer, slot);
      if (expert < experts) ++replicas[expert];
    }
    const auto [least, most] = std::ranges::minmax_element(replicas);
    if (*most > *least + 1) return false;
  }
  return true;
}

}  // namespace

ChosenPlacement ChoosePlacement(const PlanningSide& from, const PlannedService& planned,
                                const PlacementSpec& spec, std::span<const WorkerSeen> workers,
                                bool has_lost) {
  ChosenPlacement out;
  const TopologyRecord* const committed = from.side.committed();
  if (committed == nullptr) return out;
  const janus::Result<Placement> was = PlacementOf(*committed);
  if (!was.ok()) return out;
  std::vector<InstanceId> experts;
  std::vector<controllers::HeldExperts> held;
  std::vector<std::string> pods;
  for (const WorkerSeen& one : workers) {
    if (one.role != Role::kExperts) continue;
    experts.push_back({one.role, one.pod_uid, one.index, one.incarnation});
    held.push_back(one.experts);
    pods.push_back(one.pod_uid);
  }
  const int slots = planned.plan.slots_per_instance + planned.plan.spare_slots;
  const std::vector<int> slots_of_instance(experts.size(), slots);
  out.levels = IsLevel(*was, planned.model.moe.experts);

  // Rounds are those of the front side.
  const std::shared_ptr<const PlacementMemory>& memory = from.seen.remembered.placement;
  const bool is_ours = memory != nullptr && memory->topology == from.side.topology->name();
  if (is_ours && memory->placed != nullptr) {
    out.placement = PlacementOn(*memory->placed, experts, slots_of_instance);
    if (out.placement) {
      if (memory->last) out.why = memory->last->message;
      return out;
    }
  }
  out.placement = PlacementOn(PlacedOn(*was, ExpertIdsOf(*committed)), experts, slots_of_instance);
  if (out.placement || !is_ours || has_lost || experts.size() < 2) return out;
  if (spec.policy == PlacementPolicy::kRoundRobin) return out;

  const janus::Result<Placement> keeping = controllers::PlaceKeeping(
      {planned.model.moe_layers(), planned.model.moe.experts, slots_of_instance,
       planned.plan.spare_slots, controllers::PodNumbers(pods), out.levels},
      held);
  if (!keeping.ok()) return out;
  janus::Result<PlacementFound> found =
      SearchPlacement(*memory, planned, spec.survivable, *keeping, controllers::PodNumbers(pods),
                      Seconds(spec.rebalance_interval_seconds));
  if (!found.ok()) return out;
  PlacementMemory next = *memory;
  next.placed = std::make_shared<const PlacedExperts>(PlacedOn(found->placement, experts));
  next.searched = from.seen.now;
  next.last = std::move(found->search);
  next.last->time = from.seen.wall;
  out.why = next.last->message;
  out.placement = std::move(found->placement);
  out.next = std::make_shared<const PlacementMemory>(std::move(next));
  return out;
}

}  // namespace janus::control
