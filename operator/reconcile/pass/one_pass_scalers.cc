#include <utility>

#include "operator/reconcile/children/scalers.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/pass/one_pass.h"

namespace janus::control {

// What is asked for stands in the service from here on as the fewest that the role may have: the
// plan adds what the model needs. Until there is a MoERoleScaler, and while a foreign one has its
// name, the count stays what it is.
void Reconciler::OnePass::AskScaler(RolePass& role, std::optional<int> before) {
  RoleScaling& scaling = *SpecOf(service_, role.role).scaling;
  int current = before.value_or(0);
  if (current == 0 && topology_ && topology_->spec.committed) {
    // It sleeps, or slept when its mode was changed.
    for (const TopologyInstance& one : topology_->spec.committed->instances) {
      current += one.role == role.role;
    }
  }
  if (current == 0) current = scaling.min_replicas.value_or(1);
  const int asked = role.scaler ? AskedOf(*role.scaler) : current;
  BoundedCount bounded = BoundBySpec(service_, role.role, asked);
  if (!role.scaler) bounded.limit = {};
  const bool stays = service_.spec.paused && before.value_or(0) > 0;
  if (stays && bounded.count != current) {
    bounded = {current,
               {"Paused", WhatIsAsked(service_, role.role, asked) +
                              "; spec.paused keeps the count at " + std::to_string(current)}};
  }
  scaling.min_replicas = bounded.count;
  role.wanted.pods = role.external_count = bounded.count;
  role.limit = std::move(bounded.limit);
}

void Reconciler::OnePass::TakeExternal(RolePass& role, int planned) {
  if (planned > role.external_count && role.scaler) {
    role.limit = {"AtMin", WhatIsAsked(service_, role.role, AskedOf(*role.scaler)) +
                               "; the model's experts need " + std::to_string(planned) +
                               " instances of " +
                               std::to_string(planned_->plan.slots_per_instance) + " slots"};
  }
  role.external_count = planned;
}

Cause Reconciler::OnePass::LimitOf(const RolePass& role) {
  const std::string name =
      kRoleScalers.kind + " " + RoleObjectName(service_.metadata.name, role.role);
  for (const Refusal& refusal : refused_) {
    if (refusal.cause.reason == "AdoptRefused" && refusal.cause.message.starts_with(name + " ")) {
      return refusal.cause;
    }
  }
  // What there is room for is kept instead.
  if (capacity_ && role.wanted.pods != role.external_count && wants_pods()) return capacity_;
  return role.limit;
}

// The rules of the service's own status hold for a scaler's.
void Reconciler::OnePass::WriteScalerStatus(const RolePass& role, const ServiceSeen& seen) {
  const ObjectKey key{service_.metadata.namespace_,
                      RoleObjectName(service_.metadata.name, role.role)};
  const std::optional<Node> there =
      memory_.writes.Newest(kRoleScalers, key, owner_.caches_.scalers.Get(key));
  if (!there || !IsControlledBy(*there, memory_.uid) ||
      memory_.writes.IsDeleted(std::string(UidOf(*there)))) {
    return;
  }
  const Node next = WithScalerStatus(*there, seen, role.role);
  const StatusChange change = Compare(*there, next);
  if (change == StatusChange::kNone) return;
  std::optional<MonotonicTime>& written =
      memory_.scaler_numbers_written[role.role == Role::kExperts];
  if (change == StatusChange::kNumbers && written && now_ < *written + kNumbersPeriod) {
    BringForward(again_, *written + kNumbersPeriod);
    return;
  }
  ApiResult<Node> updated =
      owner_.api_.Update(kRoleScalers, next, Subresource::kStatus, {}, limits_);
  if (!updated.ok()) {
    Refusal refusal =
        RefusalOf(updated.error(), "write status of " + kRoleScalers.kind + " " + key.name);
    if (refusal.kind != RefusalKind::kStop) refusal.kind = RefusalKind::kRetry;
    refusal.cause.reason.clear();
    refused_.push_back(std::move(refusal));
    return;
  }
  written = now_;
  memory_.writes.Wrote(kRoleScalers, std::string(ResourceVersionOf(*there)), *std::move(updated),
                       now_);
}

}  // namespace janus::control
