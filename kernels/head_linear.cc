#include "kernels/kernels.h"

#include "kernels/backends.h"
#include "kernels/validate.h"

namespace janus::kernels {
namespace {

Status Validate(const HeadLinearArgs& args) {
  return std::move(
             Validator("HeadLinear")
                 .InRange(args.rows, 0, kMaxExtent, "rows")
                 .InRange(args.heads, 1, kMaxExtent, "heads")
                 .InRange(args.outputs, 1, kMaxExtent, "outputs")
                 .InRange(args.inputs, 1, kMaxExtent, "inputs")
                 .OneOf(args.weight_dtype, kWeightTypes, "weight_dtype")
                 .OneOf(args.y_dtype, kRowTypes, "y_dtype")
                 .True(args.x_head_stride >= args.inputs, "x_head_stride is shorter than a head")
                 .True(args.x_row_stride >= (args.heads - 1) * args.x_head_stride + args.inputs,
                       "x_row_stride is shorter than a row")
                 .True(args.y_head_stride >= args.outputs, "y_head_stride is shorter than a head")
                 .True(args.y_row_stride >= (args.heads - 1) * args.y_head_stride + args.outputs,
                       "y_row_stride is shorter than a row")
                 .True(args.weight_head_stride >= args.inputs * args.outputs,
                       "weight_head_stride is shorter than a head's matrix")
                 .NotNull(args.x, "x")
                 .NotNull(args.weight, "weight")
                 .NotNull(args.y, "y"))
      .Done();
}

}  // namespace

Status HeadLinear(const Stream& stream, const HeadLinearArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("HeadLinear", stream));
  if (args.rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(args));
  switch (stream.device) {
    case Device::kReference:
      HeadLinearReference(args);
      return OkStatus();
    case Device::kCpu:
      HeadLinearCpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return HeadLinearCuda(stream, args);
  }
  return InvalidArgument("HeadLinear: unknown device");
}

}  // namespace janus::kernels
