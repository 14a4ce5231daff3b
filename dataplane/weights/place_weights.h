#pragma once

#include "common/model/description.h"
#include "dataplane/weights/expert_weights.h"
#include "dataplane/weights/tensor_placer.h"

namespace janus::dataplane {

// Errors: TensorPlacer's. After it returns it no longer reads host memory. Operations that are
// queued after Placed::StreamWait read the device's copy. `known`: a set placed before by the same
// uploader, from tensors still at the same address; the new set shares what both need.
Result<Placed<ExpertWeights>> PlaceExperts(kernels::Uploader& uploader,
                                           const ModelDescription& model,
                                           const ExpertWeights& weights,
                                           const Placed<ExpertWeights>* known = nullptr,
                                           std::stop_token stop = {});

}  // namespace janus::dataplane
