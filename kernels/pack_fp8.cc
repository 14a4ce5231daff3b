#include "kernels/backends.h"
#include "kernels/kernels.h"
#include "kernels/validate.h"

namespace janus::kernels {
namespace {

// Checks that packing and unpacking share.
template <class Args>
Validator ValidateRows(const char* operation, const Args& args) {
  return Validator(operation)
      .InRange(args.rows, 0, kMaxExtent, "rows")
      .InRange(args.hidden, 1, kMaxExtent, "hidden")
      .True(args.packed_stride == 0 || args.packed_stride >= args.hidden,
            "packed_stride is shorter than a row")
      .True(args.scale_stride == 0 || args.scale_stride >= ScaleBlocks(args.hidden),
            "scale_stride is shorter than a row");
}

Status Validate(const PackFp8Args& args) {
  return std::move(ValidateRows("PackFp8", args)
                       .OneOf(args.x_dtype, kRowTypes, "x_dtype")
                       .True(args.x_stride == 0 || args.x_stride >= args.hidden,
                             "x_stride is shorter than a row")
                       .NotNull(args.x, "x")
                       .NotNull(args.packed, "packed")
                       .NotNull(args.scales, "scales"))
      .Done();
}

Status Validate(const UnpackFp8Args& args) {
  const bool is_list = args.packed_list != nullptr;
  return std::move(
             ValidateRows("UnpackFp8", args)
                 .OneOf(args.y_dtype, kRowTypes, "y_dtype")
                 .True(args.y_stride == 0 || args.y_stride >= args.hidden,
                       "y_stride is shorter than a row")
                 .True(is_list == (args.packed == nullptr) && is_list == (args.scales == nullptr),
                       "want either packed and scales, or packed_list")
                 .True(!is_list || args.list_scales_at >= args.hidden,
                       "list_scales_at is within the elements")
                 .NotNull(args.y, "y"))
      .Done();
}

}  // namespace

Status PackFp8(const Stream& stream, const PackFp8Args& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("PackFp8", stream));
  if (args.rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(args));
  switch (stream.device) {
    case Device::kReference:
      PackFp8Reference(args);
      return OkStatus();
    case Device::kCpu:
      PackFp8Cpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return PackFp8Cuda(stream, args);
  }
  return InvalidArgument("PackFp8: unknown device");
}

Status UnpackFp8(const Stream& stream, const UnpackFp8Args& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("UnpackFp8", stream));
  if (args.rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(args));
  switch (stream.device) {
    case Device::kReference:
      UnpackFp8Reference(args);
      return OkStatus();
    case Device::kCpu:
      UnpackFp8Cpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return UnpackFp8Cuda(stream, args);
  }
  return InvalidArgument("UnpackFp8: unknown device");
}

}  // namespace janus::kernels
