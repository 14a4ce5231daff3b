#pragma once

#include <memory>

#include "controllers/timed/timed_model.h"
#include "dataplane/steps/pacer.h"

// Timed devices: workers that show their results when a named device would have them
// (docs/timed-devices.md).
//
// May include: dataplane/steps, controllers, common.
namespace janus::dataplane {

// `model` must outlive them. `m`, `n`: the instances of the epoch.
std::unique_ptr<AttentionPacer> MakeAttentionPacer(const controllers::TimedModel& model);
std::unique_ptr<ExpertPacer> MakeExpertPacer(const controllers::TimedModel& model, int m, int n);

}  // namespace janus::dataplane
