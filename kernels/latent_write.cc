#include "kernels/kernels.h"

#include "kernels/backends.h"
#include "kernels/validate.h"

namespace janus::kernels {
namespace {

Status Validate(const LatentWriteArgs& args) {
  return std::move(ValidateLatentCache(Validator("LatentWrite"), args.cache)
                       .InRange(args.num_rows, 0, kMaxExtent, "num_rows")
                       .True(args.entry_stride == 0 ||
                                 args.entry_stride >= int64_t{args.cache.rank} + args.cache.rope,
                             "entry_stride is shorter than a row")
                       .NotNull(args.rows, "rows")
                       .NotNull(args.entries, "entries"))
      .Done();
}

}  // namespace

Status LatentWrite(const Stream& stream, const LatentWriteArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("LatentWrite", stream));
  if (args.num_rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(args));
  JANUS_RETURN_IF_ERROR(ValidateKvRows("LatentWrite", stream, args.rows, args.num_rows));
  switch (stream.device) {
    case Device::kReference:
      LatentWriteReference(args);
      return OkStatus();
    case Device::kCpu:
      LatentWriteCpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return LatentWriteCuda(stream, args);
  }
  return InvalidArgument("LatentWrite: unknown device");
}

}  // namespace janus::kernels
