#pragma once

#include <cstddef>
#include <vector>

#include "common/status.h"
#include "operator/scaling/predictor_inputs.h"

namespace janus::control {

// Predictors that were built lately, by what they were built from, so that a decision every few
// seconds does not build one each time. A value: copies share the tables. Bounded: the one that was
// not asked for longest goes first. Thread-compatible.
class Predictors {
 public:
  // Every service has its own: for what it was, what it becomes and what a change is undone to. A
  // predictor takes some megabytes where many instances are allowed, and milliseconds to build.
  static constexpr size_t kMost = 4;

  // Builds it if it is not there. Errors are those of BuildPredictor and are not kept.
  Result<controllers::Predictor> Get(const PredictorInputs& inputs);

  size_t size() const { return kept_.size(); }

 private:
  struct Kept {
    PredictorInputs inputs;
    controllers::Predictor predictor;
  };
  std::vector<Kept> kept_;  // the last one asked for stands last
};

}  // namespace janus::control
