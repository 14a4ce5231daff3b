#pragma once

#include "common/model/description.h"
#include "dataplane/weights/expert_weights.h"
#include "dataplane/weights/tensor_placer.h"

namespace janus::dataplane {

// Errors: TensorPlacer's. When it returns, it reads the host's memory no more; operations that are
// queued after Placed::StreamWait read the device's copy. `known`: placed before by the same
// uploader, of tensors that are still where they were; what of them is wanted again is shared.
Result<Placed<ExpertWeights>> PlaceExperts(kernels::Uploader& uploader,
                                           const ModelDescription& model,
                                           const ExpertWeights& weights,
                                           const Placed<ExpertWeights>* known = nullptr,
                                           std::stop_token stop = {});

}  // namespace janus::dataplane
