#pragma once

#include <array>
#include <vector>

#include "operator/reconcile/certificates/certified.h"
#include "operator/reconcile/pass/plan_builder.h"
#include "operator/reconcile/pass/settings.h"
#include "operator/reconcile/rollout/rollout.h"
#include "operator/reconcile/status/status.h"

namespace janus::control {

// What a pass has decided, as far as conditions tell of it.
struct Decision {
  Rollout rollout;
  Certified certified;
  std::array<bool, 2> awaits_certificate{};  // by role: pods that are to be made
  Cause awaited;                             // what the next epoch waits for
  Cause replacing;                           // another model takes the place of the one before
  bool old_serves = false;                   // that one does meanwhile
};

// Adds the report: the scalers' statuses, the service's, and Events. Keeps in Plan::remembered
// since when passes fail, and when the service last moved. Pure, as all here.
void Report(const ServiceObserved& seen, const ReconcilerOptions& options, const Decision& decision,
            PlanBuilder& out);

// Everything that the status is made of, but for what Report adds from earlier passes.
StatusFacts SeeService(const ServiceObserved& seen, const ReconcilerOptions& options,
                       const Decision& decision, const std::vector<Refusal>& refused);

// What `kubectl describe` shows of the past comes with the changes of conditions and counts.
std::vector<ServiceEvent> Transitions(const Node& before, const Node& after);

}  // namespace janus::control
