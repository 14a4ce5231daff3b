#pragma once

#include <memory>

#include "common/topology.h"
#include "controllers/timed/timed_model.h"
#include "dataplane/steps/pacer.h"

// Timed devices: workers that show their results when a named device would have them
// (docs/timed-devices.md).
//
// May include: dataplane/steps, controllers, common.
namespace janus::dataplane {

// `model` must outlive them. `m`, `n`: the instances of the epoch.
std::unique_ptr<AttentionPacer> MakeAttentionPacer(const controllers::TimedModel& model);
// Named experts go where the served one does.
std::unique_ptr<ExpertPacer> MakeExpertPacer(const controllers::TimedModel& model, int m, int n);
// For instance `rank` of an epoch of a served model with so many experts in a layer. At a scale
// above 1 with AEBS, named experts are shared out (controllers/timed/replica_shares.h).
std::unique_ptr<ExpertPacer> MakeExpertPacer(const controllers::TimedModel& model,
                                             const Topology& topology, Rank rank, int experts,
                                             SchedulingPolicy scheduling);

}  // namespace janus::dataplane
