#include "kernels/kernels.h"

#include <string>

#include "kernels/backends.h"
#include "kernels/validate.h"

namespace janus::kernels {
namespace {

Status Validate(const RopeArgs& args) {
  return std::move(Validator("Rope")
                       .InRange(args.rows, 0, kMaxExtent, "rows")
                       .InRange(args.heads, 1, kMaxExtent, "heads")
                       .InRange(args.head_dim, 1, kMaxExtent, "head_dim")
                       .InRange(args.rotary_dim, 0, args.head_dim, "rotary_dim")
                       .InRange(static_cast<int>(args.pairing), 0, 1, "pairing")
                       .True(args.rotary_dim % 2 == 0, "rotary_dim is odd")
                       .True(args.row_stride == 0 ||
                                 args.row_stride >=
                                     int64_t{args.heads - 1} * args.head_dim + args.rotary_dim,
                             "row_stride is shorter than a row")
                       .NotNull(args.x, "x")
                       .NotNull(args.positions, "positions")
                       .NotNull(args.inv_freq, "inv_freq"))
      .Done();
}

}  // namespace

Status Rope(const Stream& stream, const RopeArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("Rope", stream));
  if (args.rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(args));
  if (stream.device != Device::kCuda) {
    for (int64_t t = 0; t < args.rows; ++t) {
      if (args.positions[t] < 0) {
        return InvalidArgument("Rope: position " + std::to_string(args.positions[t]) + " of row " +
                               std::to_string(t) + " is negative");
      }
    }
  }
  switch (stream.device) {
    case Device::kReference:
      RopeReference(args);
      return OkStatus();
    case Device::kCpu:
      RopeCpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return RopeCuda(stream, args);
  }
  return InvalidArgument("Rope: unknown device");
}

}  // namespace janus::kernels
