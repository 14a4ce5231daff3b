#include "operator/reconcile/rollout/recreate.h"

#include <algorithm>
#include <string>

namespace janus::control {

bool IsOld(const Side& side, const PodSeen& pod, const RoleWanted& wanted) {
  if (const TopologyRecord* const ended = side.ended()) {
    for (const TopologyInstance& one : ended->instances) {
      if (one.pod_uid == pod.uid) return true;
    }
  }
  return pod.has_member_label || pod.revision != wanted.revision;
}

bool HasOldPods(const Side& side, const Desired& desired) {
  if (side.ended() == nullptr) return false;
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    for (const PodSeen& pod : side.pods[role == Role::kExperts]) {
      if (IsOld(side, pod, desired.Of(role).wanted)) return true;
    }
  }
  return false;
}

PodPlan PlanRecreation(const Side& side, Role role, const RoleWanted& wanted) {
  PodPlan out;
  for (const PodSeen& pod : side.pods[role == Role::kExperts]) {
    if (pod.is_leaving || !IsOld(side, pod, wanted)) continue;
    out.remove.push_back({pod.name, pod.uid, "another model replaces this pod's model"});
  }
  return out;
}

Cause RecreatingCause(const Side& side, const Desired& desired, bool are_released) {
  int leaving = 0, all = 0;
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    for (const PodSeen& pod : side.pods[role == Role::kExperts]) {
      if (!IsOld(side, pod, desired.Of(role).wanted)) continue;
      ++all;
      leaving += pod.is_leaving;
    }
  }
  const std::string name = "epoch " + std::to_string(side.ended()->epoch);
  if (are_released || leaving > 0) {
    return {"Recreating", name + " is ended: " + std::to_string(all) +
                              " pods of the old model are leaving; then new pods start"};
  }
  return {"Recreating", name + " is ended: answers have up to " +
                            std::to_string(desired.service.spec.rollout.drain_seconds) +
                            " s to finish; gateways hold new requests"};
}

}  // namespace janus::control
