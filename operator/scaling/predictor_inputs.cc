#include "operator/scaling/predictor_inputs.h"

#include "controllers/calibrated.h"

namespace janus::control {

Result<controllers::Predictor> BuildPredictor(const PredictorInputs& inputs) {
  controllers::Setting setting;
  setting.model = inputs.model;
  const double bytes_per_weight = inputs.model.DenseBytesPerWeight();
  JANUS_ASSIGN_OR_RETURN(setting.attention,
                         controllers::CostsOf(inputs.attention, bytes_per_weight));
  JANUS_ASSIGN_OR_RETURN(setting.experts, controllers::CostsOf(inputs.experts, bytes_per_weight));
  setting.spare_slots = inputs.spare_slots;
  setting.shares_node = inputs.shares_node;
  setting.attention_per_node = inputs.attention_per_node;
  setting.experts_per_node = inputs.experts_per_node;
  return controllers::Predictor::Create(setting, inputs.options);
}

}  // namespace janus::control
