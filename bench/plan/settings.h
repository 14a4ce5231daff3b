#pragma once

#include <optional>

#include "controllers/plan/search.h"

namespace janus::bench {

inline controllers::Setting Make(const controllers::ModelShape& model,
                                 const HardwareProfile& attention, const HardwareProfile& experts,
                                 double context) {
  controllers::Setting setting;
  setting.model = model;
  setting.attention = *controllers::CostsOf(attention, model.bytes_per_weight);
  setting.experts = *controllers::CostsOf(experts, model.bytes_per_weight);
  setting.context = context;
  return setting;
}

inline controllers::Setting Make(const char* model, const char* attention, const char* experts,
                                 double context) {
  return Make(*controllers::FindModel(model), *FindHardware(attention), *FindHardware(experts),
              context);
}

inline double PerCost(const auto& plan) {
  return plan.tokens_per_second / plan.cost;
}

inline double PerGpu(const auto& plan) {
  return plan.tokens_per_second / plan.gpus;
}

// The best micro-batches, exchange and slots of m and n; none keeps the goal: nullopt.
std::optional<controllers::Plan> BestOf(const controllers::Setting& setting,
                                        const controllers::PlanGoal& goal, int m, int n);

// Tables, by publication; what each asks stands in its file.
void JanusFigures();
void MegaScaleFigures();
void PublishedDisaggregation();
void SearchSpeed();

}  // namespace janus::bench
