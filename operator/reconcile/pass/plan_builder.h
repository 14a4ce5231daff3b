#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "operator/reconcile/pass/observed.h"
#include "operator/reconcile/pass/plan.h"
#include "operator/reconcile/pass/wake_time.h"

namespace janus::control {

// Builds a Plan. It leaves out an action if its call was refused in this pass, or earlier and the
// pause is not over. Conditions report that refusal.
class PlanBuilder {
 public:
  // `seen` outlives this.
  explicit PlanBuilder(const ServiceObserved& seen) : seen_(seen) {
    plan_.remembered = seen.remembered;
    for (const RefusedCall& one : seen.refused) {
      if (one.is_of_this_pass && !one.is_silent) refused_.push_back(one.refusal);
    }
  }

  // False: its call was refused before.
  bool Add(Action action) {
    const RefusedCall* const refused = seen_.RefusalOfCall(CallOf(action));
    if (refused == nullptr) {
      plan_.work.push_back(std::move(action));
      return true;
    }
    if (!refused->is_of_this_pass) refused_.push_back(refused->refusal);
    return false;
  }
  void Refuse(Refusal refusal) {
    plan_.refused.push_back(refusal);
    refused_.push_back(std::move(refusal));
  }
  void LookAgain(MonotonicTime time) { BringForward(plan_.again, time); }
  void LookAgain(const std::optional<MonotonicTime>& time) {
    if (time) BringForward(plan_.again, *time);
  }

  // All refusals that affect the service.
  const std::vector<Refusal>& refused() const { return refused_; }
  Plan& plan() { return plan_; }

 private:
  const ServiceObserved& seen_;
  Plan plan_;
  std::vector<Refusal> refused_;
};

}  // namespace janus::control
