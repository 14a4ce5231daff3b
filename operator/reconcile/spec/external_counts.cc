#include "operator/reconcile/spec/external_counts.h"

#include <string>
#include <utility>

#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"

namespace janus::control {

const Node* ScalerOfRole(const ServiceObserved& seen, Role role) {
  const ChildSeen* const there = seen.Child(kRoleScalers, RoleObjectName(seen.key().name, role));
  if (there == nullptr || there->is_deleted || !IsControlledBy(there->object, seen.uid())) {
    return nullptr;
  }
  return &there->object;
}

void TakeAskedCount(const PlanningSide& from, Role role, std::optional<int> before, Desired& out) {
  RoleDesired& desired = out.Of(role);
  RoleScaling& scaling = *SpecOf(out.service, role).scaling;
  int current = before.value_or(0);
  if (current == 0 && from.side.committed() != nullptr) {
    // It sleeps, or slept when its mode changed.
    for (const TopologyInstance& one : from.side.committed()->instances) {
      current += one.role == role;
    }
  }
  if (current == 0) current = scaling.min_replicas.value_or(1);
  const Node* const scaler = ScalerOfRole(from.seen, role);
  const int asked =
      scaler != nullptr ? AskedOf(*scaler) : PodCount(current, desired.wanted.per_pod);
  BoundedCount bounded = BoundBySpec(out.service, role, asked);
  if (scaler == nullptr) bounded.limit = {};
  const bool stays = out.service.spec.paused && before.value_or(0) > 0;
  if (stays && bounded.count != current) {
    bounded = {current,
               {"Paused", WhatIsAsked(out.service, role, asked) +
                              "; spec.paused keeps the count at " + std::to_string(current)}};
  }
  scaling.min_replicas = bounded.count;
  desired.wanted.instances = desired.external_count = bounded.count;
  desired.limit = std::move(bounded.limit);
}

void TakePlannedCount(const PlanningSide& from, Role role, Desired& out) {
  RoleDesired& desired = out.Of(role);
  const int planned = desired.wanted.instances;
  desired.wanted.instances = desired.wanted.pods() * desired.wanted.per_pod;
  const Node* const scaler = ScalerOfRole(from.seen, role);
  if (planned > desired.external_count && scaler != nullptr) {
    desired.limit = {"AtMin", WhatIsAsked(out.service, role, AskedOf(*scaler)) +
                                  "; the model's experts need " + std::to_string(planned) +
                                  " instances of " +
                                  std::to_string(out.planned->plan.slots_per_instance) + " slots"};
  }
  desired.external_count = desired.wanted.instances;
}

}  // namespace janus::control
