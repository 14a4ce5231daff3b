#pragma once

#include <map>
#include <vector>

#include "controllers/plan/performance.h"
#include "controllers/plan/whole.h"
#include "controllers/scaling/policy.h"
#include "controllers/simulate/unit.h"

namespace janus::controllers {

// What simulated machines do, beside the model's own times.
struct Machinery {
  double start_s = 120;         // of an instance, asked for to ready: pod, weights, connections
  double drain_s = 10;          // GPUs of an instance that left the service cost that much longer
  double change_pause_s = 0.1;  // nothing steps while another topology is committed
  double warm_up_s = 30;        // after which a new member is measured
  // Of the TPOT target that a step with prompts in it may take.
  double prompt_share = 0.95;
  int64_t most_waiting = 20'000;   // requests of a service, or of a whole-model instance
  int growth_reserve_percent = 0;  // of every unit: UnitShape
};

// Shapes of units by what they consist of: step times of the plan's own model (TimesOfStep,
// WholeStepSeconds) and the room that it leaves for keys. Tables are made once and shared.
// Outlives every unit. Confined to one thread.
class ShapeBook {
 public:
  // `prompt_keys`: mean keys that a prompt position attends to. Of `scaling` the TPOT target, which
  // bounds a step with prompts, and max_batch_per_attention, which holds for a whole-model
  // instance's GPUs too.
  ShapeBook(Setting setting, const Machinery& machinery, const ScalingPolicy& scaling,
            double prompt_keys);
  ShapeBook(const ShapeBook&) = delete;  // its shapes ask it for times
  ShapeBook& operator=(const ShapeBook&) = delete;

  // A pool of m attention and n expert instances; kv_tokens 0: the model does not fit.
  const UnitShape& Separate(const Configuration& how);
  // A copy of the whole model.
  const UnitShape& Whole(const WholeConfiguration& how);

  // Of every shape, those that are made already too; what it was.
  int64_t SetMostWaiting(int64_t requests);

  const Setting& setting() const { return setting_; }
  double prompt_keys() const { return prompt_keys_; }

 private:
  // `gpus`: that take max_batch_per_attention sequences each; `instances`: that compute prompts.
  UnitShape Shape(StepTable::Model model, double kv_tokens, int gpus, int instances) const;

  const Setting setting_;
  Machinery machinery_;
  const double tpot_seconds_;
  const int most_running_of_one_;
  const double prompt_keys_;
  std::map<std::vector<int>, UnitShape> shapes_;
};

}  // namespace janus::controllers
