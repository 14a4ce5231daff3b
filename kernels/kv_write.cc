#include "kernels/kernels.h"

#include "kernels/backends.h"
#include "kernels/validate.h"

namespace janus::kernels {
namespace {

Status Validate(const KvWriteArgs& args) {
  const int64_t row = int64_t{args.cache.kv_heads} * args.cache.head_dim;
  return std::move(ValidateKvCache(Validator("KvWrite"), args.cache)
                       .InRange(args.num_rows, 0, kMaxExtent, "num_rows")
                       .True(args.key_stride == 0 || args.key_stride >= row,
                             "key_stride is shorter than a row")
                       .True(args.value_stride == 0 || args.value_stride >= row,
                             "value_stride is shorter than a row")
                       .NotNull(args.rows, "rows")
                       .NotNull(args.keys, "keys")
                       .NotNull(args.values, "values"))
      .Done();
}

}  // namespace

Status KvWrite(const Stream& stream, const KvWriteArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("KvWrite", stream));
  if (args.num_rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(args));
  JANUS_RETURN_IF_ERROR(ValidateKvRows("KvWrite", stream, args.rows, args.num_rows));
  switch (stream.device) {
    case Device::kReference:
      KvWriteReference(args);
      return OkStatus();
    case Device::kCpu:
      KvWriteCpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return KvWriteCuda(stream, args);
  }
  return InvalidArgument("KvWrite: unknown device");
}

}  // namespace janus::kernels
