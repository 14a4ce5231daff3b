#include "dataplane/weights/place_weights.h"

#include <utility>

namespace janus::dataplane {

Result<Placed<ExpertWeights>> PlaceExperts(kernels::Uploader& uploader,
                                           const ModelDescription& model,
                                           const ExpertWeights& weights,
                                           const Placed<ExpertWeights>* known,
                                           std::stop_token stop) {
  Placed<ExpertWeights> placed{weights, {}, nullptr};
  if (uploader.context().is_host()) return placed;
  TensorPlacer placer(uploader, known != nullptr ? &known->tensors : nullptr, std::move(stop),
                      placed.tensors);
  for (ExpertLayerWeights& layer : placed.weights.layers) {
    JANUS_RETURN_IF_ERROR(placer.Place(layer.gate, int64_t{model.moe.experts} * model.hidden));
    JANUS_RETURN_IF_ERROR(placer.Place(layer.gate_bias, model.moe.experts));
    for (std::optional<FfnTensors>& slot : layer.slots) {
      if (!slot) continue;
      JANUS_RETURN_IF_ERROR(placer.Place(*slot, model.hidden, model.moe.intermediate));
    }
  }
  JANUS_ASSIGN_OR_RETURN(placed.loaded, uploader.Loaded());
  return placed;
}

}  // namespace janus::dataplane
