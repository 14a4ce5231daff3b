#include "operator/reconcile/rollout/rollout.h"

#include <string>
#include <utility>

#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/model/plan_fetch.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/spec/held_spec.h"
#include "operator/reconcile/spec/read_spec.h"

namespace janus::control {
namespace {

// True if a plan needs another model than the committed epoch's.
bool WantsAnotherModel(const Sides& sides, const Desired& desired) {
  const TopologyRecord* const committed = sides.front.committed();
  if (!desired.planned || !desired.acts() || committed == nullptr) return false;
  return ModelOf(*committed, sides.front.topology->name()) != ModelOf(*desired.planned);
}

Cause ModelCannotFollow(const std::string& topology, bool is_cluster, bool has_one_pool) {
  return {
      "NotSupported",
      "spec.model: topology " + topology +
          " cannot change weights, dtype, device, kvCache.dtype, exchange.compression or "
          "exchange.sum; "
          "spec.rollout.type: " +
          (!is_cluster    ? ""
           : has_one_pool ? "SideBySide starts the new model beside the old one if both fit; "
                          : "SideBySide needs a service of one pool; ") +
          "Recreate stops the old model first; nothing serves while the new one loads; or create "
          "another MoEService"};
}

// The plan for `service` cannot follow the committed epoch: chooses how to switch.
void GoOver(const ServiceObserved& seen, const ReconcilerOptions& options,
            const MoEService& service, Rollout& out) {
  Desired& desired = out.desired;
  if (!WantsAnotherModel(out.sides, desired)) return;
  const RolloutType type = desired.service.spec.rollout.type;
  const bool has_one_pool =
      seen.pool == 1 && seen.other_pools.empty() && MostPools(desired.service.spec) == 1;
  const bool is_cluster = options.ground == Ground::kCluster;
  const bool may_stand_beside = is_cluster && has_one_pool;
  if (type == RolloutType::kRolling || (type != RolloutType::kRecreate && !may_stand_beside)) {
    desired.invalid = ModelCannotFollow(out.sides.front.topology->name(), is_cluster, has_one_pool);
    return;
  }
  // It does not fit: do not end an epoch for it.
  if (desired.capacity && type == RolloutType::kRecreate) return desired.planned.reset();
  if (desired.service.spec.paused || !desired.wants_pods()) return;
  if (out.sides.old) return;  // these pods report yet another model, which is not wanted yet
  if (type == RolloutType::kRecreate) {
    desired.ends = "the model has changed, and spec.rollout.type is Recreate";
    return;
  }
  out.sides = Split(seen, out.sides);
  desired = PlanSpec(FrontOf(seen, options, out.sides), service, desired.pinned, {});
}

// An edit that can never be carried out only changes conditions. The last spec under which the
// whole service ran stays in force, and lost pods are replaced. Sleep and pause follow the newest
// spec.
void HoldLast(const ServiceObserved& seen, const ReconcilerOptions& options,
              const MoEService& newest, Rollout& out) {
  const PlanningSide front = FrontOf(seen, options, out.sides);
  if (!HasLastToHold(front)) return;
  std::optional<MoEService> last = LastServiceOf(seen.tree, out.sides.front.topology);
  if (!last) return;
  last->spec.suspend = newest.spec.suspend;
  last->spec.paused = newest.spec.paused;
  // A restart requested together with the edit waits too, and so does its image.
  const PinnedImage pinned = PinnedImageOf(seen.tree);
  const std::string restart(kRestartedAtAnnotation);
  last->metadata.annotations.erase(restart);
  if (!out.desired.pinned.restarted_at.empty()) {
    last->metadata.annotations[restart] = out.desired.pinned.restarted_at;
  }
  const Cause why = out.desired.invalid;
  Rollout held = out;
  held.desired.invalid = CheckSpec(*last, options);
  if (!held.desired.invalid) {
    held.desired = PlanSpec(front, *last, pinned, {});
    if (!held.desired.invalid) GoOver(seen, options, *last, held);
  }
  if (held.desired.invalid) {
    // This operator refuses the last spec too, perhaps after a change of build or settings.
    out.desired = PlanSpec(front, newest, out.desired.pinned, why);
    return;
  }
  held.desired.is_held = true;
  held.desired.invalid = why;
  out = std::move(held);
}

// Keeps up the spec under which the front side started, meanwhile.
Desired AwaitTurn(const PlanningSide& front, const MoEService& newest, const PinnedImage& pinned,
                  const Cause& held_back) {
  std::optional<MoEService> last = LastServiceOf(front.seen.tree, front.side.topology);
  Desired out;
  if (last) {
    MoEService service = newest;
    last->spec.suspend = newest.spec.suspend;
    last->spec.paused = newest.spec.paused;
    last->spec.rollout = newest.spec.rollout;
    service.spec = std::move(last->spec);
    service.commit = std::move(last->commit);
    out = PlanSpec(front, std::move(service), pinned, {}, held_back);
  } else {
    out.held_back = held_back;
    out.service = newest;
    out.pinned = pinned;
    out.is_frozen = true;
    for (const Role role : {Role::kAttention, Role::kExperts}) {
      out.Of(role).wanted.instances = DesiredInstances(front.seen.tree, role).value_or(0);
      out.Of(role).wanted.per_pod = SpecOf(newest, role).instances_per_pod;
      out.Of(role).wanted.now = front.seen.wall;
    }
  }
  return out;
}

// Until the model is there: what serves goes on, and nothing is created for the new spec.
Desired AwaitModel(const PlanningSide& front, const MoEService& newest, const PinnedImage& pinned,
                   const Cause& fetching) {
  Desired out;
  if (front.side.committed() != nullptr) {
    out = AwaitTurn(front, newest, pinned, fetching);
  } else {
    out = PlanSpec(front, newest, pinned, {});
    out.awaited = fetching;
    out.is_frozen = true;
  }
  out.fetching = fetching;
  return out;
}

}  // namespace

PlanningSide FrontOf(const ServiceObserved& seen, const ReconcilerOptions& options,
                     const Sides& sides) {
  return {seen, options, sides, sides.front, *seen.models};
}

Rollout DecideRollout(const ServiceObserved& seen, const ReconcilerOptions& options) {
  SpecRead read = ReadSpec(seen.tree);
  const Cause invalid = read.invalid ? read.invalid : CheckSpec(read.service, options);
  const PinnedImage pinned =
      invalid ? PinnedImageOf(seen.tree) : PinImage(seen.tree, read.service, options);
  Rollout out;
  out.sides = TakeSides(seen);
  if (WantsOldSideAgain(out.sides, read.service, bool{invalid})) {
    out.sides = ReturnToOldSide(seen, out.sides);
  }
  const PlanningSide front = FrontOf(seen, options, out.sides);
  if (!invalid && options.ground == Ground::kCluster) {
    if (const Cause fetching = WhyNotFetched(seen, read.service)) {
      out.desired = AwaitModel(front, read.service, pinned, fetching);
      out.desired.progress = ProgressOfFetch(seen, read.service);
      return out;
    }
  }
  if (MustAwaitOldSide(out.sides, read.service, bool{invalid})) {
    out.desired = AwaitTurn(
        front, read.service, pinned,
        {"Replacing", "spec.model has changed again: the oldest model's pods must leave first"});
    return out;
  }
  out.desired = PlanSpec(front, read.service, pinned, invalid);
  if (!out.desired.invalid) GoOver(seen, options, read.service, out);
  if (out.desired.invalid) HoldLast(seen, options, read.service, out);
  return out;
}

}  // namespace janus::control
