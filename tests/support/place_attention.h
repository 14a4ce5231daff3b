#pragma once

#include <stop_token>

#include "common/model/description.h"
#include "dataplane/weights/attention_weights.h"
#include "dataplane/weights/tensor_placer.h"

namespace janus::dataplane {

// Places a whole set of weights from host memory. (For a checkpoint, LoadAttention moves each
// tensor as it is read.) Errors: TensorPlacer's. Afterwards host memory is not read any more; users
// of the device call Placed::StreamWait.
Result<Placed<AttentionWeights>> PlaceAttention(kernels::Uploader& uploader,
                                                const ModelDescription& model,
                                                const AttentionWeights& weights,
                                                std::stop_token stop = {});

}  // namespace janus::dataplane
