#pragma once

#include <map>
#include <vector>

#include "common/prompt_share.h"
#include "controllers/plan/performance.h"
#include "controllers/plan/whole.h"
#include "controllers/scaling/policy.h"
#include "controllers/simulate/unit.h"

namespace janus::controllers {

// Properties of simulated machines, besides the model's times.
struct Machinery {
  double start_s = 120;         // of an instance, from request to ready: pod, weights, connections
  double drain_s = 10;          // GPUs of an instance cost this much longer after it left
  double change_pause_s = 0.1;  // no step runs while another topology is committed
  double warm_up_s = 30;        // after this time a new member is measured
  // Share of the TPOT target that a step with prompts may take.
  double prompt_share = kPromptShareOfTpot;
  int64_t most_waiting = 20'000;   // requests of a service, or of a whole-model instance
  int growth_reserve_percent = 0;  // of every unit: UnitShape
  // A sequence of a pool takes the time and memory of so many (timed devices; PredictorOptions).
  double rows_for_one = 1;
};

// Shapes of units by their parts: step times of the plan's model (TimesOfStep, WholeStepSeconds),
// and the room that it leaves for keys. Tables are made once and shared. Must outlive every unit.
// Confined to one thread.
class ShapeBook {
 public:
  // `prompt_keys`: mean keys of a prompt position. From `scaling` it takes the TPOT target, which
  // limits a step with prompts, and max_batch_per_attention, which is also the limit per GPU of a
  // whole-model instance.
  ShapeBook(Setting setting, const Machinery& machinery, const ScalingPolicy& scaling,
            double prompt_keys);
  ShapeBook(const ShapeBook&) = delete;  // its shapes query it for times
  ShapeBook& operator=(const ShapeBook&) = delete;

  // A pool of m attention and n expert instances; kv_tokens 0: the model does not fit.
  const UnitShape& Separate(const Configuration& how);
  // The same model's times of one step of such a pool.
  StepTimes TimesOf(const Configuration& how, StepLoad load) const;
  // A copy of the whole model.
  const UnitShape& Whole(const WholeConfiguration& how);

  // Sets most_waiting of every shape, including existing ones. Returns the old value.
  int64_t SetMostWaiting(int64_t requests);

  const Setting& setting() const { return setting_; }
  double prompt_keys() const { return prompt_keys_; }

 private:
  // `gpus` take max_batch_per_attention sequences each; `instances` compute prompts.
  UnitShape Shape(StepTable::Model model, double kv_tokens, int gpus, int instances) const;

  const Setting setting_;
  Machinery machinery_;
  const double tpot_seconds_;
  const int most_running_of_one_;
  const double prompt_keys_;
  std::map<std::vector<int>, UnitShape> shapes_;
};

}  // namespace janus::controllers
