#include "dataplane/weights/gate.h"

namespace janus::dataplane {

kernels::GateTopKArgs GateOf(const ModelDescription& model, const Tensor& weight,
                             const Tensor& bias) {
  kernels::GateTopKArgs args;
  args.x_dtype = WireType(model);
  args.weight = weight.data;
  args.weight_dtype = weight.dtype;
  args.hidden = model.hidden;
  args.experts = model.moe.experts;
  args.top_k = model.moe.top_k;
  args.score = model.moe.score;
  args.bias = static_cast<const float*>(bias.data);
  args.renormalize = model.moe.renormalize;
  args.weight_scale = model.moe.weight_scale;
  args.groups = model.moe.groups;
  args.top_groups = model.moe.top_groups;
  return args;
}

}  // namespace janus::dataplane
