#include "kernels/kernels.h"

#include "kernels/backends.h"
#include "kernels/validate.h"

namespace janus::kernels {
namespace {

Status Validate(const RmsNormArgs& args) {
  const int64_t row = args.groups * args.hidden;
  return std::move(
             Validator("RmsNorm")
                 .InRange(args.rows, 0, kMaxExtent, "rows")
                 .InRange(args.hidden, 1, kMaxExtent, "hidden")
                 .InRange(args.groups, 1, kMaxExtent, "groups")
                 .True(args.x_stride == 0 || args.x_stride >= row, "x_stride is shorter than a row")
                 .True(args.y_stride == 0 || args.y_stride >= row, "y_stride is shorter than a row")
                 .OneOf(args.weight_dtype, kWeightTypes, "weight_dtype")
                 .OneOf(args.y_dtype, kRowTypes, "y_dtype")
                 .True(args.epsilon >= 0.0f, "epsilon is negative or NaN")
                 .NotNull(args.x, "x")
                 .NotNull(args.weight, "weight")
                 .NotNull(args.y, "y"))
      .Done();
}

}  // namespace

Status RmsNorm(const Stream& stream, const RmsNormArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("RmsNorm", stream));
  if (args.rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(args));
  switch (stream.device) {
    case Device::kReference:
      RmsNormReference(args);
      return OkStatus();
    case Device::kCpu:
      RmsNormCpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return RmsNormCuda(stream, args);
  }
  return InvalidArgument("RmsNorm: unknown device");
}

}  // namespace janus::kernels
