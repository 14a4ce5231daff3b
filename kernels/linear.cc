#include "kernels/kernels.h"

#include "kernels/backends.h"
#include "kernels/validate.h"

namespace janus::kernels {
namespace {

Status Validate(const LinearArgs& args) {
  return std::move(Validator("Linear")
                       .InRange(args.rows, 0, kMaxExtent, "rows")
                       .InRange(args.outputs, 1, kMaxExtent, "outputs")
                       .InRange(args.inputs, 1, kMaxExtent, "inputs")
                       .OneOf(args.x_dtype, kRowTypes, "x_dtype")
                       .OneOf(args.weight_dtype, kWeightTypes, "weight_dtype")
                       .OneOf(args.bias_dtype, kWeightTypes, "bias_dtype")
                       .True(args.x_stride == 0 || args.x_stride >= args.inputs,
                             "x_stride is shorter than a row")
                       .True(args.y_stride == 0 || args.y_stride >= args.outputs,
                             "y_stride is shorter than a row")
                       .NotNull(args.x, "x")
                       .NotNull(args.weight, "weight")
                       .NotNull(args.y, "y"))
      .Done();
}

}  // namespace

Status Linear(const Stream& stream, const LinearArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("Linear", stream));
  if (args.rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(args));
  switch (stream.device) {
    case Device::kReference:
      LinearReference(args);
      return OkStatus();
    case Device::kCpu:
      LinearCpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return LinearCuda(stream, args);
  }
  return InvalidArgument("Linear: unknown device");
}

}  // namespace janus::kernels
