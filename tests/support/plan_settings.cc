#include "tests/support/plan_settings.h"

#include <utility>

namespace janus::controllers {

std::optional<Plan> BestOf(const Setting& setting, const PlanGoal& goal, int m, int n) {
  std::optional<Plan> best;
  Configuration how;
  how.m = m;
  how.n = n;
  for (how.micro_batches = 1; how.micro_batches <= 4; ++how.micro_batches) {
    how.slots = QuickestSlots(setting, goal, {}, how);
    for (const auto& [mode, gate] : kExchangesTried) {
      how.mode = mode;
      how.gate = gate;
      auto plan = EvaluatePlan(setting, goal, {}, how);
      if (plan && (!best || PerGpu(*plan) > PerGpu(*best))) best = std::move(plan);
    }
  }
  return best;
}

}  // namespace janus::controllers
