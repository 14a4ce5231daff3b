#pragma once

#include "common/model/description.h"
#include "dataplane/weights/tensor.h"
#include "kernels/kernels.h"

namespace janus::dataplane {

// The arguments of a MoE layer's gate and top-k, without the addresses of rows, logits, ids and
// weights. Rows have the wire type. The same bits on whichever side it is computed.
kernels::GateTopKArgs GateOf(const ModelDescription& model, const Tensor& weight,
                             const Tensor& bias);

}  // namespace janus::dataplane
