#include "operator/reconcile/spec/held_spec.h"

#include <algorithm>
#include <string>
#include <utility>

#include "operator/api/parse.h"
#include "operator/reconcile/children/scalers.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/scaling/scaled_counts.h"
#include "operator/reconcile/spec/read_spec.h"

namespace janus::control {

void KeepTls(const PlanningSide& from, Desired& out) {
  if (out.invalid || !from.options.defaults.certificates) return;
  const bool sleeps = !WhyAsleep(out.service).empty();
  const bool wants = out.service.spec.security.tls == Tls::kAuto;
  bool has_wanted = false, has_other = false;
  for (const PodSeen& pod : from.seen.pods) {
    // Pods that are being deleted serve their gateways to the end, and get no new ones.
    const bool counts = pod.is_live() || (sleeps && pod.is_leaving);
    if (counts) (pod.uses_tls == wants ? has_wanted : has_other) = true;
  }
  if (!has_other || has_wanted) return;
  out.service.spec.security.tls = wants ? Tls::kDisabled : Tls::kAuto;
  if (sleeps) return;
  out.held_tls = {"NotSupported",
                  "spec.security.tls: pods with and without TLS cannot call each other, so the "
                  "service stays " +
                      std::string(wants ? "without" : "with") +
                      " TLS; to change it, set spec.suspend: true until its pods are gone"};
}

void KeepCommitted(const PlanningSide& from, Desired& out) {
  const TopologyRecord* const committed = from.side.committed();
  if (committed == nullptr) return;
  MoEService held = out.service;
  held.spec.pipeline.micro_batches = committed->micro_batches;
  for (const TopologyInstance& one : committed->instances) {
    const std::optional<SequenceRoom> room = RoomAt(*committed, one);
    if (!room) continue;
    held.spec.model.max_model_len = static_cast<int32_t>(room->max_model_len);
    held.spec.roles.attention.max_batch_size = room->max_batch_size;
    held.spec.roles.attention.kv_cache.size = UnitsOf(room->kv_bytes);
    held.spec.roles.attention.kv_cache.prefix_host_memory = UnitsOf(room->prefix_host_bytes);
  }
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    RoleSpec& spec = SpecOf(held, role);
    spec.scaling.reset();
    spec.replicas = DesiredInstances(from.seen.tree, role).value_or(0);
    if (*spec.replicas == 0) return;
    RoleWanted& wanted = out.Of(role).wanted;
    const std::vector<PodSeen>& pods = from.side.pods[role == Role::kExperts];
    const auto like = std::find_if(pods.begin(), pods.end(),
                                   [&](const PodSeen& pod) { return IsServing(from.side, pod); });
    if (like != pods.end()) wanted.revision = like->revision;
    wanted.rolls = false;
  }
  out.workers = WorkersOf(from, out);  // running workers have their own sizes
  int room = committed->micro_batches;
  if (out.micro_batches_of_spec == 0) room = std::max(room, RoomForMicroBatches(out));
  janus::Result<PlannedService> planned =
      PlanWithRoomFor([&](const MoEService& one) { return from.models.Plan(one, out.workers); },
                      held, committed->micro_batches, room);
  if (!planned.ok()) return;
  out.planned = *std::move(planned);
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    out.Of(role).wanted.instances = *SpecOf(held, role).replicas;
  }
}

void SayWhatIsKept(const PlanningSide& from, Desired& out) {
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    const RoleDesired& desired = out.Of(role);
    if (IsExternal(SpecOf(out.service, role)) &&
        desired.wanted.instances != desired.external_count) {
      return;
    }
  }
  if (out.held_back || !out.planned || !out.wants_pods() ||
      IsLastSpec(from.seen.tree, from.side.topology))
    return;
  if (out.service.spec.paused) return;
  out.held_back = {
      out.capacity.reason,
      "the newest spec does not fit; what serves stays unchanged: " + out.capacity.message};
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    RoleDesired& desired = out.Of(role);
    const std::optional<int32_t>& asked = SpecOf(out.service, role).replicas;
    if (!asked || *asked == desired.wanted.instances) continue;
    desired.limit = {out.capacity.reason,
                     "spec.roles." + std::string(ToString(role)) + ".replicas is " +
                         std::to_string(*asked) +
                         "; the newest spec does not fit, and the count stays " +
                         std::to_string(desired.wanted.instances)};
  }
}

bool HasLastToHold(const PlanningSide& from) {
  if (from.side.committed() == nullptr && from.side.ended() == nullptr) return false;
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    if (DesiredInstances(from.seen.tree, role).value_or(0) == 0) return false;  // it sleeps
  }
  return true;
}

bool HasWaitingEdits(const ServiceObserved& seen, const Side& side) {
  std::optional<MoEService> last = LastServiceOf(seen.tree, side.topology);
  if (!last) return false;
  MoEServiceSpec asked = ParseMoEService(seen.tree).object.spec;
  last->spec.paused = asked.paused;
  last->spec.suspend = asked.suspend;
  last->spec.gateway = asked.gateway;
  return last->spec != asked;
}

}  // namespace janus::control
