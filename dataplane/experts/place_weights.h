#pragma once

#include "dataplane/attention/place_weights.h"
#include "dataplane/experts/weights.h"

namespace janus::dataplane {

// Errors: TensorPlacer's. When it returns, nothing of the host's is read any more. `known`: placed
// before, of tensors that are still where they were; what of them is wanted again is shared.
Result<Placed<ExpertWeights>> PlaceExperts(kernels::Context& context, const ModelDescription& model,
                                           const ExpertWeights& weights,
                                           const Placed<ExpertWeights>* known = nullptr,
                                           std::stop_token stop = {});

}  // namespace janus::dataplane
