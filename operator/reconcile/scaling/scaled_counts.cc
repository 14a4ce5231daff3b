#include "operator/reconcile/scaling/scaled_counts.h"

#include <algorithm>
#include <limits>

#include "operator/reconcile/pods/pods.h"
#include "operator/reconcile/pools/pools.h"
#include "operator/reconcile/scaling/decision_tree.h"
#include "operator/reconcile/scaling/tick.h"
#include "operator/scaling/setting_of.h"

namespace janus::control {

void TakeScaledCount(const PlanningSide& from, Role role, std::optional<int> before, Desired& out) {
  RoleSpec& spec = SpecOf(out.service, role);
  if (!spec.scaling) spec.scaling.emplace();
  // The bounds and decisions are of all pools together.
  const int pools = PoolsWanted(from.seen, out.service);
  const int least = PodCount(spec.scaling->min_replicas.value_or(1), pools);
  const int most = spec.scaling->max_replicas.value_or(std::numeric_limits<int>::max()) / pools;
  const std::optional<InstanceCounts>& wanted = from.seen.remembered.scaling.wanted;
  const auto of_role = [&](const InstanceCounts& counts) {
    return (role == Role::kAttention ? counts.attention : counts.experts) /
           std::max(counts.pools, 1);
  };
  int count = before.value_or(0);
  if (wanted && !out.service.spec.paused) {
    count = of_role(*wanted);
  } else if (count == 0) {
    // It was asleep: what was decided last is wanted again.
    if (const auto last = LastDecisionOf(from.seen.tree)) count = of_role(last->to);
  }
  count = std::clamp(count, least, std::max(least, most));
  spec.scaling->min_replicas = count;
  out.Of(role).wanted.instances = count;
}

void TakeMicroBatches(const PlanningSide& from, Desired& out) {
  int32_t& micro_batches = out.service.spec.pipeline.micro_batches;
  if (micro_batches != 0 || !IsScaled(out.service.spec)) return;
  micro_batches = from.seen.remembered.scaling.micro_batches;
  // A new leader has not decided yet.
  const TopologyRecord* const committed = from.side.committed();
  if (micro_batches == 0 && committed != nullptr) {
    micro_batches = committed->micro_batches;
  }
}

int RoomForMicroBatches(const Desired& desired) {
  const MoEServiceSpec& spec = desired.service.spec;
  const int chosen = std::max(spec.pipeline.micro_batches, 1);
  if (desired.micro_batches_of_spec != 0 || !IsScaled(spec)) return chosen;
  MoEServiceSpec open = spec;
  open.pipeline.micro_batches = 0;
  return std::max(chosen, MostMicroBatches(open));
}

janus::Result<PlannedService> PlanWithRoomFor(PlanModel plan_model, const MoEService& service,
                                              int least, int& room) {
  const int chosen = std::max(service.spec.pipeline.micro_batches, 1);
  MoEService sized = service;
  for (;; --room) {
    sized.spec.pipeline.micro_batches = room;
    janus::Result<PlannedService> planned = plan_model(sized);
    if (planned.ok()) planned->plan.effective.micro_batches = std::min(chosen, room);
    if (planned.status().code() != StatusCode::kResourceExhausted || room <= least) return planned;
  }
}

}  // namespace janus::control
