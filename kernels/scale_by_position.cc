#include "kernels/backends.h"
#include "kernels/kernels.h"
#include "kernels/validate.h"

namespace janus::kernels {
namespace {

Status Validate(const ScaleByPositionArgs& args) {
  return std::move(Validator("ScaleByPosition")
                       .InRange(args.rows, 0, kMaxExtent, "rows")
                       .InRange(args.columns, 1, kMaxExtent, "columns")
                       .InRange(args.num_factors, 1, kMaxExtent, "num_factors")
                       .InRange(args.step, 1, kMaxExtent, "step")
                       .True(args.row_stride == 0 || args.row_stride >= args.columns,
                             "row_stride is shorter than a row")
                       .NotNull(args.x, "x")
                       .NotNull(args.positions, "positions")
                       .NotNull(args.factors, "factors"))
      .Done();
}

}  // namespace

Status ScaleByPosition(const Stream& stream, const ScaleByPositionArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("ScaleByPosition", stream));
  if (args.rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(args));
  switch (stream.device) {
    case Device::kReference:
      ScaleByPositionReference(args);
      return OkStatus();
    case Device::kCpu:
      ScaleByPositionCpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return ScaleByPositionCuda(stream, args);
  }
  return InvalidArgument("ScaleByPosition: unknown device");
}

}  // namespace janus::kernels
