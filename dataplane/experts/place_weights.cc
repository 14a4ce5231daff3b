#include "dataplane/experts/place_weights.h"

namespace janus::dataplane {

Result<Placed<ExpertWeights>> PlaceExperts(kernels::Context& context, const ModelDescription& model,
                                           const ExpertWeights& weights) {
  Placed<ExpertWeights> placed{weights, {}};
  if (context.is_host()) return placed;
  TensorPlacer placer(context, placed.memory);
  for (ExpertLayerWeights& layer : placed.weights.layers) {
    JANUS_RETURN_IF_ERROR(placer.Place(layer.router, int64_t{model.moe.experts} * model.hidden));
    for (std::optional<FfnTensors>& slot : layer.slots) {
      if (!slot) continue;
      JANUS_RETURN_IF_ERROR(placer.Place(*slot, model.hidden, model.moe.intermediate));
    }
  }
  JANUS_RETURN_IF_ERROR(context.Wait());
  return placed;
}

}  // namespace janus::dataplane
