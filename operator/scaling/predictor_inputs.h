#pragma once

#include "common/hardware.h"
#include "common/status.h"
#include "controllers/plan/model_shape.h"
#include "controllers/scaling/predictor.h"

namespace janus::control {

// All that a predictor is built from: equal inputs give equal predictors. A value.
struct PredictorInputs {
  controllers::ModelShape model;
  HardwareProfile attention;
  HardwareProfile experts;
  int spare_slots = 0;
  bool shares_node = false;  // rows stay within one machine
  // Instances of one role that share memory; 0: as many as a node of the hardware has GPUs for.
  int attention_per_node = 0;
  int experts_per_node = 0;
  controllers::PredictorOptions options;

  friend bool operator==(const PredictorInputs&, const PredictorInputs&) = default;
};

// Takes milliseconds; predictors.h keeps what was built. Errors are those of
// controllers::Predictor::Create and CostsOf. Pure.
Result<controllers::Predictor> BuildPredictor(const PredictorInputs& inputs);

}  // namespace janus::control
