#pragma once

#include <optional>

#include "common/hardware.h"
#include "common/timed_device.h"
#include "controllers/plan/model_shape.h"
#include "controllers/scaling/decide.h"

namespace janus::control {

// What predictions of a service are made from, whatever its counts: correction factors hold for
// this alone. PredictorInputs have the share of one instance instead, which changes with the number
// of instances. A value.
struct PredictionBasis {
  controllers::ModelShape model;
  // The HardwareProfile or preset; of CPUs without one, what one thread does. `price` and
  // `memory_bytes` are left as they are in an empty profile, since no time depends on them.
  HardwareProfile attention;
  HardwareProfile experts;
  std::optional<TimedDevice> timed = std::nullopt;

  friend bool operator==(const PredictionBasis&, const PredictionBasis&) = default;
};

// Whether factors that were learned against one are also good for the other. All is equal, except
// that a worker measures its CPUs when it starts, and never twice the same: figures of CPUs may
// differ by a factor below 2, which is also the most that a factor corrects. Pure.
bool HasSameFactors(const PredictionBasis& one, const PredictionBasis& other);

// Before a decision on `now`. If factors of `before` are not good for it, clears what was learned
// of the errors of predictions: factors, tails and caution. It would correct figures that are right
// now. What was seen of the load stays. Pure.
void ForgetLearned(const PredictionBasis& before, const PredictionBasis& now,
                   controllers::Memory& memory);

}  // namespace janus::control
