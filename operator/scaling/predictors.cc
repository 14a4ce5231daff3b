#include "operator/scaling/predictors.h"

#include <algorithm>
#include <utility>

namespace janus::control {

Result<controllers::Predictor> Predictors::Get(const PredictorInputs& inputs) {
  const auto found =
      std::ranges::find_if(kept_, [&](const Kept& one) { return one.inputs == inputs; });
  if (found != kept_.end()) {
    std::rotate(found, found + 1, kept_.end());
    return kept_.back().predictor;
  }
  JANUS_ASSIGN_OR_RETURN(controllers::Predictor built, BuildPredictor(inputs));
  if (kept_.size() == kMost) kept_.erase(kept_.begin());
  kept_.push_back({inputs, std::move(built)});
  return kept_.back().predictor;
}

}  // namespace janus::control
