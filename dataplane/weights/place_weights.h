#pragma once

#include "common/model/description.h"
#include "dataplane/weights/expert_weights.h"
#include "dataplane/weights/tensor_placer.h"

namespace janus::dataplane {

// Errors: TensorPlacer's. When it returns, nothing of the host's is read any more; the device has
// it all for who follows (Placed::Follow). `known`: placed before by the same loader, of tensors
// that are still where they were; what of them is wanted again is shared.
Result<Placed<ExpertWeights>> PlaceExperts(kernels::Loader& loader, const ModelDescription& model,
                                           const ExpertWeights& weights,
                                           const Placed<ExpertWeights>* known = nullptr,
                                           std::stop_token stop = {});

}  // namespace janus::dataplane
