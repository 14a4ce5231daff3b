#pragma once

#include "dataplane/attention/place_weights.h"
#include "dataplane/experts/weights.h"

namespace janus::dataplane {

// As PlaceAttention. `known`: placed before by the same loader, of tensors that are still where
// they were; what of them is wanted again is shared.
Result<Placed<ExpertWeights>> PlaceExperts(kernels::Loader& loader, const ModelDescription& model,
                                           const ExpertWeights& weights,
                                           const Placed<ExpertWeights>* known = nullptr,
                                           std::stop_token stop = {});

}  // namespace janus::dataplane
