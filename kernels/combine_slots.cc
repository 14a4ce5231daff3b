#include "kernels/kernels.h"

#include "kernels/backends.h"
#include "kernels/validate.h"

namespace janus::kernels {
namespace {

Status Validate(const CombineSlotsArgs& args) {
  return std::move(
             Validator("CombineSlots")
                 .InRange(args.rows, 0, kMaxExtent, "rows")
                 .InRange(args.hidden, 1, kMaxExtent, "hidden")
                 .InRange(args.top_k, args.local == nullptr ? 1 : 0, kMaxTopK, "top_k")
                 .OneOf(args.dtype, kRowTypes, "dtype")
                 .True(args.top_k == 0 || args.contributions != nullptr, "contributions is null")
                 .NotNull(args.residual, "residual")
                 .NotNull(args.y, "y"))
      .Done();
}

}  // namespace

Status CombineSlots(const Stream& stream, const CombineSlotsArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("CombineSlots", stream));
  if (args.rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(args));
  switch (stream.device) {
    case Device::kReference:
      CombineSlotsReference(args);
      return OkStatus();
    case Device::kCpu:
      CombineSlotsCpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return CombineSlotsCuda(stream, args);
  }
  return InvalidArgument("CombineSlots: unknown device");
}

}  // namespace janus::kernels
