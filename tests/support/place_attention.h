#pragma once

#include <stop_token>

#include "common/model/description.h"
#include "dataplane/weights/attention_weights.h"
#include "dataplane/weights/tensor_placer.h"

namespace janus::dataplane {

// Places what lies in the host's memory as a whole; of a checkpoint LoadAttention moves each tensor
// as it is read. Errors: TensorPlacer's. When it returns, nothing of the host's is read any more;
// the device has it all for its users (Placed::StreamWait).
Result<Placed<AttentionWeights>> PlaceAttention(kernels::Uploader& uploader,
                                                const ModelDescription& model,
                                                const AttentionWeights& weights,
                                                std::stop_token stop = {});

}  // namespace janus::dataplane
