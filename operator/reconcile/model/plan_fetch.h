#pragma once

#include <optional>

#include "common/fetch_progress.h"
#include "operator/reconcile/pass/plan_builder.h"
#include "operator/reconcile/pass/settings.h"
#include "operator/reconcile/status/cause.h"

namespace janus::control {

// Why the model of the newest spec, which has passed CheckSpec, is not there. Empty: it is there,
// or comes from elsewhere. Pure, like all functions here.
Cause WhyNotFetched(const ServiceObserved& seen, const MoEService& newest);

// How far its download is; nothing: it is there, or no pod has told lately.
std::optional<FetchProgress> ProgressOfFetch(const ServiceObserved& seen, const MoEService& newest);

// Creates the Job that fetches the newest spec's model, and its NetworkPolicy; records its result;
// deletes Jobs of models that are no longer wanted. A model of the last spec that served stays
// wanted. Does nothing for an invalid spec, or for a model from elsewhere.
void PlanFetch(const ServiceObserved& seen, const ReconcilerOptions& options, PlanBuilder& out);

}  // namespace janus::control
