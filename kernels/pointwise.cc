#include "kernels/backends.h"
#include "kernels/kernels.h"
#include "kernels/validate.h"

namespace janus::kernels {
namespace {

Status Validate(const PointwiseArgs& args) {
  const bool clips = args.function == PointFunction::kClip;
  return std::move(Validator("Pointwise")
                       .InRange(static_cast<int>(args.function), 0, 1, "function")
                       .InRange(args.rows, 0, kMaxExtent, "rows")
                       .InRange(args.columns, 1, kMaxExtent, "columns")
                       .True(args.row_stride == 0 || args.row_stride >= args.columns,
                             "row_stride is shorter than a row")
                       .True(!clips || args.limit > 0.0f, "limit is not above 0")
                       .NotNull(args.x, "x"))
      .Done();
}

}  // namespace

Status Pointwise(const Stream& stream, const PointwiseArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("Pointwise", stream));
  if (args.rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(args));
  switch (stream.device) {
    case Device::kReference:
      PointwiseReference(args);
      return OkStatus();
    case Device::kCpu:
      PointwiseCpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return PointwiseCuda(stream, args);
  }
  return InvalidArgument("Pointwise: unknown device");
}

}  // namespace janus::kernels
