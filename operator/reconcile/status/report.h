#pragma once

#include <array>
#include <vector>

#include "operator/reconcile/certificates/certified.h"
#include "operator/reconcile/pass/plan_builder.h"
#include "operator/reconcile/pass/settings.h"
#include "operator/reconcile/rollout/rollout.h"
#include "operator/reconcile/status/status.h"

namespace janus::control {

// The decisions of a pass that conditions report.
struct Decision {
  Rollout rollout;
  Certified certified;
  std::array<bool, 2> awaits_certificate{};  // by role: pods to create
  Cause awaited;                             // what the next epoch waits for
  Cause replacing;                           // another model replaces the previous one
  std::string exchange_why;                  // mode and gate of the next epoch, and why
  bool old_serves = false;                   // the previous model serves meanwhile
};

// What a pass has decided of a pool.
struct PoolReport {
  int number = 1;
  const ServiceObserved* seen = nullptr;  // its part
  const Decision* decision = nullptr;
  bool drains = false;  // it is no longer wanted
};

// Adds the report: statuses of scalers and service, and Events. Stores in Plan::remembered since
// when passes fail, and when the service last progressed. Pure, like all functions here.
//
// `pools`: the first pool first; a service without pools is its own first pool.
void Report(const ServiceObserved& seen, const ReconcilerOptions& options,
            const std::vector<PoolReport>& pools, PlanBuilder& out);

// Collects the input of the status, except what Report adds from earlier passes.
StatusFacts SeeService(const ReconcilerOptions& options, const std::vector<PoolReport>& pools,
                       const std::vector<Refusal>& refused);

// Events for changes of conditions and counts, for the history in `kubectl describe`.
std::vector<ServiceEvent> Transitions(const Node& before, const Node& after);

}  // namespace janus::control
