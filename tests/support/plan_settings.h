#pragma once

#include <optional>

#include "controllers/plan/search.h"

namespace janus::controllers {

// Settings by name or by data sheet, and a plan's result for its GPUs. Benches and tests that
// compare published figures with the performance model share this.

inline Setting Make(const ModelShape& model, const HardwareProfile& attention,
                    const HardwareProfile& experts, double context) {
  Setting setting;
  setting.model = model;
  setting.attention = *CostsOf(attention, model.bytes_per_weight);
  setting.experts = *CostsOf(experts, model.bytes_per_weight);
  setting.context = context;
  return setting;
}

inline Setting Make(const char* model, const char* attention, const char* experts, double context) {
  return Make(*FindModel(model), *FindHardware(attention), *FindHardware(experts), context);
}

inline double PerCost(const auto& plan) {
  return plan.tokens_per_second / plan.cost;
}

inline double PerGpu(const auto& plan) {
  return plan.tokens_per_second / plan.gpus;
}

// The best micro-batches, exchange and slots for m and n; nullopt: none meets the goal.
std::optional<Plan> BestOf(const Setting& setting, const PlanGoal& goal, int m, int n);

}  // namespace janus::controllers
