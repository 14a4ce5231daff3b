#pragma once

#include "dataplane/attention/place_weights.h"
#include "dataplane/experts/weights.h"

namespace janus::dataplane {

Result<Placed<ExpertWeights>> PlaceExperts(kernels::Context& context, const ModelDescription& model,
                                           const ExpertWeights& weights);

}  // namespace janus::dataplane
