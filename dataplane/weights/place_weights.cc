#include "dataplane/weights/place_weights.h"

#include <utility>

namespace janus::dataplane {

Result<Placed<ExpertWeights>> PlaceExperts(kernels::Loader& loader, const ModelDescription& model,
                                           const ExpertWeights& weights,
                                           const Placed<ExpertWeights>* known,
                                           std::stop_token stop) {
  Placed<ExpertWeights> placed{weights, {}, nullptr};
  if (loader.context().is_host()) return placed;
  TensorPlacer placer(loader, known != nullptr ? &known->tensors : nullptr, std::move(stop),
                      placed.tensors);
  for (ExpertLayerWeights& layer : placed.weights.layers) {
    JANUS_RETURN_IF_ERROR(placer.Place(layer.router, int64_t{model.moe.experts} * model.hidden));
    JANUS_RETURN_IF_ERROR(placer.Place(layer.router_bias, model.moe.experts));
    for (std::optional<FfnTensors>& slot : layer.slots) {
      if (!slot) continue;
      JANUS_RETURN_IF_ERROR(placer.Place(*slot, model.hidden, model.moe.intermediate));
    }
  }
  JANUS_ASSIGN_OR_RETURN(placed.loaded, loader.Loaded());
  return placed;
}

}  // namespace janus::dataplane
