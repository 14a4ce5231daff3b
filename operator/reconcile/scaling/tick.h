#pragma once

#include <optional>
#include <vector>

#include "operator/reconcile/pass/observed.h"
#include "operator/reconcile/pass/settings.h"
#include "operator/reconcile/rollout/rollout.h"
#include "operator/reconcile/scaling/scaling_memory.h"
#include "operator/records/tick_record.h"

namespace janus::control {

// A decision that is due, or the end of decisions after a hold: what scaling remembers after it.
struct ScalingTick {
  std::optional<ScalingMemory> next;      // nothing: neither
  std::optional<MonotonicTime> again;     // when the next one is
  std::optional<TickRecord> record = {};  // of a decision on a world
};

// Once in spec.scaling.intervalSeconds it takes what members and gateways have counted, of a
// service with a TPOT target. Where a role is in mode SLO it also decides on counts and
// micro-batches (JANUS 3.4; docs/scaling.md). That needs a committed topology of the front side, a
// plan, and the load; if one is missing it holds and says which. It does nothing for a service that
// sleeps. Pure.
//
// `pools`: the rollout of each pool that is wanted, the first one first; `wanted`: how many these
// are to be.
ScalingTick Tick(const ServiceObserved& seen, const ReconcilerOptions& options,
                 const std::vector<const Rollout*>& pools, int wanted);

// Whether decisions set a count of the service: a role is in mode SLO. Pure.
bool IsScaled(const MoEServiceSpec& spec);

}  // namespace janus::control
