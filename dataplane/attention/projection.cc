#include "dataplane/attention/projection.h"

namespace janus::dataplane {

Status Project(const kernels::Stream& stream, const Tensor& weight, const Projection& projection) {
  kernels::LinearArgs args;
  args.x = projection.x;
  args.x_dtype = projection.x_dtype;
  args.weight = weight.data;
  args.weight_dtype = weight.dtype;
  args.bias = projection.bias.data;
  args.bias_dtype = projection.bias.dtype;
  args.y = projection.y;
  args.accumulate = projection.accumulate;
  args.rows = projection.count;
  args.outputs = projection.outputs;
  args.inputs = projection.inputs;
  args.y_stride = projection.y_stride;
  return kernels::Linear(stream, args);
}

Status Norm(const kernels::Stream& stream, const Tensor& weight, const Norming& norming) {
  kernels::RmsNormArgs args;
  args.x = norming.x;
  args.x_stride = norming.x_stride;
  args.weight = weight.data;
  args.weight_dtype = weight.dtype;
  args.y = norming.y;
  args.y_dtype = norming.y_dtype;
  args.y_stride = norming.y_stride;
  args.rows = norming.count;
  args.groups = norming.groups;
  args.hidden = norming.size;
  args.epsilon = norming.epsilon;
  return kernels::RmsNorm(stream, args);
}

}  // namespace janus::dataplane
